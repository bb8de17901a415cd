-- A batch with its newest attempt; locked, so that claim, publish and fail of one batch take turns. NO KEY: a planner can give the
-- batch to a run while it is being published. Locked first and read then: a statement that waited for the lock would join the new
-- batch with the attempts of before.
SELECT FROM tideline.batch WHERE batch_id = %(batch_id)s FOR NO KEY UPDATE;
SELECT batch.batch_id, pipeline, batch.kind::text, batch.state::text, batch.fence, batch.attempt, newest.attempt_id,
       newest.dag_id, newest.run_id, newest.task_id, newest.try_number, newest.host, newest.pid,
       extract(epoch FROM clock_timestamp() - newest.heartbeat_at)::float8 AS silent_seconds
FROM tideline.batch LEFT JOIN tideline.attempt newest ON newest.attempt = batch.attempt
WHERE batch.batch_id = %(batch_id)s;
