-- writing -> published, only by the attempt that holds the batch.
UPDATE tideline.batch SET state = 'published'
WHERE batch_id = %(batch_id)s AND state = 'writing' AND attempt = %(attempt)s
RETURNING batch_id;
