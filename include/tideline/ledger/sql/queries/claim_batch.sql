-- planned | failed | writing -> writing, from the exact fence that was seen.
UPDATE tideline.batch SET state = 'writing', fence = %(fence)s, attempt = %(attempt)s
WHERE batch_id = %(batch_id)s AND fence = %(fence)s - 1 AND state IN ('planned', 'failed', 'writing')
RETURNING batch_id;
