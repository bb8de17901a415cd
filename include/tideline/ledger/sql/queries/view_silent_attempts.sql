-- Attempts that hold a batch as writing and have sent no heartbeat for a while, by the database's clock.
SELECT batch.pipeline, batch.batch_id, batch.fence, attempt.dag_id, attempt.run_id, task_id, try_number, host, pid,
       extract(epoch FROM clock_timestamp() - heartbeat_at)::bigint AS silent_seconds
FROM tideline.batch JOIN tideline.attempt USING (attempt)
WHERE batch.state = 'writing' AND (%(pipeline)s::text IS NULL OR batch.pipeline = %(pipeline)s)
  AND heartbeat_at < clock_timestamp() - make_interval(secs => %(seconds)s)
ORDER BY batch.batch_id;
