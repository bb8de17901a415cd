-- name: list_unread
-- List the ranges of a batch that the tasks of the attempt have not read to the end. A task stores its counts when its
-- input has ended. Where gaps are allowed, only the number of tasks that have stored counts shows this. A task that
-- finds nothing but gaps stores nothing, and its range is listed as unread. In a re-drive, each reject that still
-- exists must have been read, and all rejects that were read must have been counted. Each read of a slice finds the
-- same rejects, so its count is stored or it is not.
SELECT r.stream_id FROM tideline.batch_range r JOIN tideline.batch USING (batch_id)
LEFT JOIN (
    SELECT stream_id, sum(n_read) AS n_read, count(*) AS n_tasks FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id
) c USING (stream_id)
WHERE r.batch_id = %(batch_id)s
  AND CASE WHEN batch.kind = 'redrive' THEN coalesce(c.n_read, 0) < (
               SELECT coalesce(sum(cardinality(s.offsets)), 0) FROM tideline.staged_redrive s
               WHERE s.attempt_id = %(attempt_id)s AND s.stream_id = r.stream_id)
               OR EXISTS (SELECT d.kafka_offset FROM tideline.redrive d JOIN tideline.reject USING (stream_id, kafka_offset)
                          WHERE d.batch_id = r.batch_id AND d.stream_id = r.stream_id
                          EXCEPT
                          SELECT unnest(s.offsets) FROM tideline.staged_redrive s WHERE s.attempt_id = %(attempt_id)s AND s.stream_id = r.stream_id)
           WHEN r.gaps_allowed THEN coalesce(c.n_tasks, 0) < ceil((upper(r.offsets) - lower(r.offsets))::numeric / %(split_records)s)
           ELSE coalesce(c.n_read, 0) < upper(r.offsets) - lower(r.offsets) END;
