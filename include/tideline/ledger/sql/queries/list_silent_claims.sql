-- Batches of a pipeline whose attempt has sent no heartbeat for long. Its writer counts as dead. If it still lives, it
-- can no longer publish once the batch is failed.
SELECT batch.batch_id, attempt.attempt, attempt.fence, attempt.host, attempt.pid,
       extract(epoch FROM clock_timestamp() - attempt.heartbeat_at)::float8 AS silent_seconds
FROM tideline.batch JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.pipeline = %(pipeline)s AND batch.state = 'writing' AND attempt.heartbeat_at < clock_timestamp() - make_interval(secs => %(silent_seconds)s)
ORDER BY batch.batch_id;
