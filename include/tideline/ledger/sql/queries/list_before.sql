-- The open batches that are folded before a stateful batch: each has lower offsets of one of its streams. `silent_seconds` is the time since the last
-- sign of it: a heartbeat, the end of its last attempt, or its plan.
SELECT other.batch_id, other.state::text, other.dag_id, other.run_id, newest.task_id, newest.try_number, newest.host, newest.pid,
       extract(epoch FROM clock_timestamp() - coalesce(newest.ended_at, newest.heartbeat_at, other.planned_at))::float8 AS silent_seconds
FROM tideline.batch other LEFT JOIN tideline.attempt newest ON newest.attempt = other.attempt
WHERE other.pipeline = %(pipeline)s AND other.state IN ('planned', 'writing', 'failed') AND EXISTS (
    SELECT FROM tideline.batch_range theirs JOIN tideline.batch_range own USING (stream_id)
    WHERE theirs.batch_id = other.batch_id AND own.batch_id = %(batch_id)s AND lower(theirs.offsets) < lower(own.offsets))
ORDER BY other.batch_id;
