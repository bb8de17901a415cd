-- The newest batches of an outside sink with what their receipts must say: the attempt whose commit a published batch
-- is, how long ago it was intended, and all attempts.
SELECT b.batch_id, b.identity, b.state::text, w.attempt AS written_by, w.fence AS written_fence,
       extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds,
       ARRAY(SELECT a.attempt::text FROM tideline.attempt a WHERE a.batch_id = b.batch_id) AS attempts
FROM tideline.batch b LEFT JOIN tideline.attempt w ON w.attempt_id = b.written_by LEFT JOIN tideline.intent i ON i.attempt_id = b.written_by
WHERE b.pipeline = %(pipeline)s AND b.outside AND b.fence > 0
ORDER BY b.batch_id DESC LIMIT %(most)s;
