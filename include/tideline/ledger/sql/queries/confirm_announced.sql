-- The asset events of these batches were seen. Locked in order, against a deadlock of two tasks.
WITH listed AS (
    SELECT batch_id FROM tideline.outbox WHERE batch_id = ANY (%(batch_ids)s) AND announced_at IS NULL ORDER BY batch_id FOR UPDATE
)
UPDATE tideline.outbox SET announced_at = clock_timestamp() FROM listed WHERE outbox.batch_id = listed.batch_id;
