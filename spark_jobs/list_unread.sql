-- Ranges of a batch that no task of the attempt has read to the end: a task stores its counts when its input has ended.
SELECT r.stream_id FROM tideline.batch_range r
LEFT JOIN (SELECT stream_id, sum(n_read) AS n_read FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id) c USING (stream_id)
WHERE r.batch_id = %(batch_id)s
  AND (c.n_read IS NULL OR (NOT r.gaps_allowed AND c.n_read < upper(r.offsets) - lower(r.offsets)));
