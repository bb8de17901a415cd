-- Record that the asset events of these batches were seen. Rows are locked in order, so that two tasks cannot deadlock.
WITH listed AS (
    SELECT batch_id FROM tideline.outbox WHERE batch_id = ANY (%(batch_ids)s) AND announced_at IS NULL ORDER BY batch_id FOR UPDATE
)
UPDATE tideline.outbox SET announced_at = clock_timestamp() FROM listed WHERE outbox.batch_id = listed.batch_id;
