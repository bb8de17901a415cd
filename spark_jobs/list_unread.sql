-- Ranges of a batch that no task of the attempt has read to the end: a task stores its counts when its input has ended. Of a re-drive, only the
-- rejects that are still there were to be read.
SELECT r.stream_id FROM tideline.batch_range r JOIN tideline.batch USING (batch_id)
LEFT JOIN (SELECT stream_id, sum(n_read) AS n_read FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id) c USING (stream_id)
WHERE r.batch_id = %(batch_id)s
  AND CASE WHEN batch.kind = 'redrive' THEN coalesce(c.n_read, 0) < (
               SELECT count(*) FROM tideline.redrive d JOIN tideline.reject USING (stream_id, kafka_offset)
               WHERE d.batch_id = r.batch_id AND d.stream_id = r.stream_id)
           ELSE c.n_read IS NULL OR (NOT r.gaps_allowed AND c.n_read < upper(r.offsets) - lower(r.offsets)) END;
