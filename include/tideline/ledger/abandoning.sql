-- name: abandon_batch
-- Abandon a batch that no attempt writes (planned | failed -> abandoned). Its offsets can be planned again.
UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = %(batch_id)s AND state IN ('planned', 'failed')
RETURNING batch_id;

-- name: list_batches_of_stopped
-- Open live batches with a range of a stopped or retired stream. They cannot be written as they were planned.
SELECT DISTINCT batch_id FROM tideline.batch JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE batch.pipeline = %(pipeline)s AND batch.state IN ('planned', 'writing', 'failed') AND batch.kind = 'live' AND stream.state <> 'active'
ORDER BY batch_id;

-- name: list_unclaimed
-- Open live batches that no run is going to write: the last attempt has failed or fallen silent, or the batch was
-- planned longer ago than the grace period and no attempt has claimed it. Without the batches of a run that is writing
-- another batch.
WITH kept AS (
    SELECT run_batch.batch_id
    FROM tideline.batch JOIN tideline.attempt ON attempt.attempt = batch.attempt
    JOIN tideline.run_batch ON run_batch.pipeline = batch.pipeline AND run_batch.dag_id = attempt.dag_id AND run_batch.run_id = attempt.run_id
    WHERE batch.pipeline = %(pipeline)s AND batch.state = 'writing'
      AND attempt.heartbeat_at >= clock_timestamp() - make_interval(secs => %(stale_seconds)s)
)
SELECT batch_id FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state IN ('planned', 'writing', 'failed') AND kind = 'live'
  AND (state <> 'planned' OR planned_at < clock_timestamp() - make_interval(secs => %(grace_seconds)s))
  AND NOT EXISTS (SELECT FROM kept WHERE kept.batch_id = batch.batch_id)
ORDER BY batch_id;

-- name: list_being_written
-- Open batches of a pipeline that an attempt with a recent heartbeat writes.
SELECT batch.batch_id FROM tideline.batch JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.pipeline = %(pipeline)s AND batch.state = 'writing'
  AND attempt.heartbeat_at >= clock_timestamp() - make_interval(secs => %(stale_seconds)s);
