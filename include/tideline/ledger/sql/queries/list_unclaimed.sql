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
