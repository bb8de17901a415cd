-- Say that an attempt is alive, and how many records its tasks have read; no row where a newer attempt has claimed its batch. One that has just
-- published may beat once more: to take that for a takeover would cancel what the same driver writes next. Its counts are gone by then.
UPDATE tideline.attempt SET
    heartbeat_at = clock_timestamp(),
    n_read = greatest(attempt.n_read, so_far.n_read),
    progressed_at = CASE WHEN so_far.n_read > attempt.n_read THEN clock_timestamp() ELSE attempt.progressed_at END
FROM tideline.batch JOIN tideline.attempt newest ON newest.attempt = batch.attempt
CROSS JOIN LATERAL (SELECT coalesce(sum(c.n_read), 0)::bigint AS n_read FROM tideline.staged_count c WHERE c.attempt_id = newest.attempt_id) AS so_far
WHERE attempt.attempt = %(attempt)s AND batch.batch_id = attempt.batch_id AND batch.attempt = attempt.attempt
RETURNING attempt.attempt_id;
