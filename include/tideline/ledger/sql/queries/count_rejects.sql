-- How many records an attempt has rejected, the most common reason, and how many records it has read.
SELECT count(*) AS n_rejected, mode() WITHIN GROUP (ORDER BY reason) AS reason,
       (SELECT coalesce(sum(n_read), 0)::bigint FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s) AS n_read
FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s;
