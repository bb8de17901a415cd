-- Find the newest batch of a pipeline that an attempt was to commit to an output. An attempt with an intent has seen the output, so it must exist.
SELECT b.batch_id, a.fence
FROM tideline.batch b JOIN tideline.intent i ON i.batch_id = b.batch_id JOIN tideline.attempt a ON a.attempt_id = i.attempt_id
WHERE b.pipeline = %(pipeline)s AND b.outside AND i.output = %(output)s
ORDER BY b.batch_id DESC, a.fence DESC LIMIT 1;
