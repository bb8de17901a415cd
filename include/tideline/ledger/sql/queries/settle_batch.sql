-- Record whose commit an outside batch is, only by the attempt that holds it. The publication follows in the same transaction.
UPDATE tideline.batch SET written_by = %(written_by)s
WHERE batch_id = %(batch_id)s AND state = 'writing' AND attempt = %(attempt)s
RETURNING batch_id;
