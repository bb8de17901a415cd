-- Published batches of a pipeline whose asset event was not confirmed yet, each with the task that last took it to
-- announce it.
SELECT batch_id, batch.attempt, published_at, n_tries, outbox.dag_id, outbox.run_id, outbox.task_id
FROM tideline.outbox JOIN tideline.batch USING (batch_id)
WHERE outbox.pipeline = %(pipeline)s AND announced_at IS NULL
ORDER BY batch_id;
