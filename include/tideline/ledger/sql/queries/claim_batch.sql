-- Claim a batch (planned | failed | writing -> writing), only if its fence is still exactly one below the new one.
UPDATE tideline.batch SET state = 'writing', fence = %(fence)s, attempt = %(attempt)s
WHERE batch_id = %(batch_id)s AND fence = %(fence)s - 1 AND state IN ('planned', 'failed', 'writing')
RETURNING batch_id;
