-- How many published batches of each pipeline have no asset event yet, and since when the oldest of them waits.
SELECT pipeline, n_waiting, oldest_at
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT count(*) AS n_waiting, min(published_at) AS oldest_at FROM tideline.outbox
    WHERE outbox.pipeline = pipeline.pipeline AND announced_at IS NULL
) AS waiting
ORDER BY pipeline;
