-- When each pipeline last planned a batch, and since when the oldest batch waits that is planned and not published.
SELECT pipeline, last_planned_at, oldest_open_at
FROM tideline.pipeline
LEFT JOIN LATERAL (
    SELECT planned_at AS last_planned_at FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT 1
) AS newest ON true
LEFT JOIN LATERAL (
    SELECT planned_at AS oldest_open_at FROM tideline.batch
    WHERE batch.pipeline = pipeline.pipeline AND state IN ('planned', 'writing', 'failed', 'published') AND state <> 'published'
    ORDER BY batch_id LIMIT 1
) AS oldest ON true
ORDER BY pipeline;
