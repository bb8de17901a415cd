-- Record a heartbeat of an attempt, and how many records its tasks have read. No row: a newer attempt has claimed its
-- batch. An attempt that has just published may send one more heartbeat. To treat that as a takeover would cancel the
-- next batch that the same driver writes. Its staged counts are already deleted by then.
UPDATE tideline.attempt SET
    heartbeat_at = clock_timestamp(),
    n_read = greatest(attempt.n_read, so_far.n_read),
    progressed_at = CASE WHEN so_far.n_read > attempt.n_read THEN clock_timestamp() ELSE attempt.progressed_at END
FROM tideline.batch JOIN tideline.attempt newest ON newest.attempt = batch.attempt
CROSS JOIN LATERAL (SELECT coalesce(sum(c.n_read), 0)::bigint AS n_read FROM tideline.staged_count c WHERE c.attempt_id = newest.attempt_id) AS so_far
WHERE attempt.attempt = %(attempt)s AND batch.batch_id = attempt.batch_id AND batch.attempt = attempt.attempt
RETURNING attempt.attempt_id;
