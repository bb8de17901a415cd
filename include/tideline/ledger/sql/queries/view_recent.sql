-- For each pipeline: its newest batch, what its newest batches have read and rejected, and how many replays and re-drives
-- wait for an operator because no run for new records adopts them; how many of those have failed.
SELECT pipeline, newest.*, n_recent, n_read, n_rejected, n_waiting, n_failed_waiting
FROM tideline.pipeline
LEFT JOIN LATERAL (
    SELECT batch_id, kind::text, state::text, dag_id, run_id, planned_at FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT 1
) AS newest ON true
CROSS JOIN LATERAL (
    SELECT count(DISTINCT batch_id) AS n_recent, coalesce(sum(r.n_read), 0)::bigint AS n_read, coalesce(sum(r.n_rejected), 0)::bigint AS n_rejected
    FROM (SELECT batch_id FROM tideline.batch WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT %(n_batches)s) AS lately
    JOIN tideline.batch_range r USING (batch_id)
) AS sums
CROSS JOIN LATERAL (
    SELECT count(*) AS n_waiting, count(*) FILTER (WHERE state = 'failed') AS n_failed_waiting FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline AND state IN ('planned', 'failed') AND kind IN ('replay', 'redrive')
) AS waiting
ORDER BY pipeline;
