-- The newest batches of a pipeline with their summed counts and the problem of their newest attempt. Filtered by state
-- or kind where these are given.
SELECT batch_id, kind::text, state::text, reason, dag_id, run_id, supersedes, planned_at, fence AS n_attempts,
       n_ranges, n_offsets, n_read, n_written, n_rejected, n_filtered, n_gap, n_bytes, problem
FROM tideline.batch
CROSS JOIN LATERAL (
    SELECT count(*) AS n_ranges, sum(upper(offsets) - lower(offsets))::bigint AS n_offsets, sum(n_read)::bigint AS n_read,
           sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected, sum(n_filtered)::bigint AS n_filtered,
           sum(n_gap)::bigint AS n_gap, sum(n_bytes)::bigint AS n_bytes
    FROM tideline.batch_range WHERE batch_range.batch_id = batch.batch_id
) AS sums
LEFT JOIN LATERAL (SELECT problem FROM tideline.attempt WHERE attempt.attempt = batch.attempt) AS newest ON true
WHERE pipeline = %(pipeline)s
  AND (%(state)s::tideline.batch_state IS NULL OR state = %(state)s)
  AND (%(kind)s::tideline.batch_kind IS NULL OR kind = %(kind)s)
ORDER BY batch_id DESC
LIMIT %(limit)s;
