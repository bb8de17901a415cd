-- name: list_waiting
-- Published batches of a pipeline whose asset event was not confirmed yet, each with the task that last took it to
-- announce it.
SELECT batch_id, batch.attempt, published_at, n_tries, outbox.dag_id, outbox.run_id, outbox.task_id
FROM tideline.outbox JOIN tideline.batch USING (batch_id)
WHERE outbox.pipeline = %(pipeline)s AND announced_at IS NULL
ORDER BY batch_id;

-- name: confirm_announced
-- Record that the asset events of these batches were seen. Rows are locked in order, so that two tasks cannot deadlock.
WITH listed AS (
    SELECT batch_id FROM tideline.outbox WHERE batch_id = ANY (%(batch_ids)s) AND announced_at IS NULL ORDER BY batch_id FOR UPDATE
)
UPDATE tideline.outbox SET announced_at = clock_timestamp() FROM listed WHERE outbox.batch_id = listed.batch_id;

-- name: take_waiting
-- Take batches to announce them, for one task. -> those that no other task has taken since they were listed. Rows are
-- locked in order, so that two tasks cannot deadlock.
WITH listed AS (
    SELECT outbox.batch_id FROM tideline.outbox JOIN unnest(%(batch_ids)s::bigint[], %(n_tries)s::integer[]) AS seen (batch_id, n_tries) USING (batch_id)
    WHERE outbox.n_tries = seen.n_tries AND announced_at IS NULL
    ORDER BY batch_id FOR UPDATE OF outbox
)
UPDATE tideline.outbox SET n_tries = outbox.n_tries + 1, dag_id = %(dag_id)s, run_id = %(run_id)s, task_id = %(task_id)s
FROM listed WHERE outbox.batch_id = listed.batch_id
RETURNING outbox.batch_id;

-- name: list_publications
-- The counts of each range of the given published batches, in the order of publication, and when the attempt that published
-- began and ended; null if upkeep has deleted it. Includes batches that were replaced since.
SELECT batch.batch_id, batch.kind::text, batch.attempt, published_at, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       batch_range.n_read, n_written, n_rejected, n_filtered, n_gap, started_at, ended_at
FROM tideline.outbox
JOIN tideline.batch USING (batch_id)
JOIN tideline.batch_range USING (batch_id)
JOIN tideline.stream USING (stream_id)
LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.batch_id = ANY (%(batch_ids)s)
ORDER BY published_at, batch.batch_id, topic, partition;
