-- A batch with its newest attempt. The batch is locked, so that claim, publish and fail of one batch take turns. NO
-- KEY: a planner can give the batch to a run while it is being published. The lock and the read are two statements: a
-- single statement that waited for the lock would join the new version of the batch with the attempts of an older
-- snapshot.
SELECT FROM tideline.batch WHERE batch_id = %(batch_id)s FOR NO KEY UPDATE;
SELECT batch.batch_id, batch.identity, pipeline, batch.kind::text, batch.state::text, batch.fence, batch.attempt, batch.outside, batch.stateful, newest.attempt_id,
       newest.dag_id, newest.run_id, newest.task_id, newest.try_number, newest.host, newest.pid,
       extract(epoch FROM clock_timestamp() - newest.heartbeat_at)::float8 AS silent_seconds
FROM tideline.batch LEFT JOIN tideline.attempt newest ON newest.attempt = batch.attempt
WHERE batch.batch_id = %(batch_id)s;
