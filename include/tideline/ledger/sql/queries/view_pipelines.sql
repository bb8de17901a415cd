-- The pipelines that the ledger knows: since when it is retired, streams by state, unfinished batches by state, and when
-- a batch was last published.
SELECT pipeline, created_at, retired_at, n_streams, n_active, n_stopped, n_retired, n_planned, n_writing, n_failed, n_published,
       last_published_at
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT count(*) AS n_streams,
           count(*) FILTER (WHERE state = 'active') AS n_active,
           count(*) FILTER (WHERE state = 'stopped') AS n_stopped,
           count(*) FILTER (WHERE state = 'retired') AS n_retired
    FROM tideline.stream WHERE stream.pipeline = pipeline.pipeline
) AS streams
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'planned') AS n_planned,
           count(*) FILTER (WHERE state = 'writing') AS n_writing,
           count(*) FILTER (WHERE state = 'failed') AS n_failed,
           count(*) FILTER (WHERE state = 'published') AS n_published
    FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline AND state IN ('planned', 'writing', 'failed', 'published')  -- the states in the index batch_open
) AS batches
LEFT JOIN LATERAL (
    SELECT ended_at AS last_published_at
    FROM tideline.batch JOIN tideline.attempt USING (attempt)
    WHERE batch.pipeline = pipeline.pipeline AND outcome = 'published'
    ORDER BY batch.batch_id DESC LIMIT 1
) AS latest ON true
ORDER BY pipeline;
