-- Open batches of a pipeline that an attempt with a recent heartbeat writes.
SELECT batch.batch_id FROM tideline.batch JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.pipeline = %(pipeline)s AND batch.state = 'writing'
  AND attempt.heartbeat_at >= clock_timestamp() - make_interval(secs => %(stale_seconds)s);
