-- Say that an attempt is alive; no row where a newer attempt has claimed its batch, or it has ended.
UPDATE tideline.attempt SET heartbeat_at = clock_timestamp()
FROM tideline.batch
WHERE attempt.attempt = %(attempt)s AND ended_at IS NULL AND batch.attempt = attempt.attempt AND batch.state = 'writing'
RETURNING attempt_id;
