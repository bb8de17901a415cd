-- Say that an attempt is alive; no row where a newer attempt has claimed its batch. One that has just published may beat once more:
-- to take that for a takeover would cancel what the same driver writes next.
UPDATE tideline.attempt SET heartbeat_at = clock_timestamp()
FROM tideline.batch
WHERE attempt.attempt = %(attempt)s AND batch.attempt = attempt.attempt
RETURNING attempt_id;
