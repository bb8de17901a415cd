-- What each pipeline has published in the last seconds, over at most its newest batches: the seconds that each took, from
-- the start of the attempt that published it, and the counts of their records. So the cost does not grow with the history.
SELECT pipeline, durations, n_written, n_rejected, n_filtered, n_gap
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(took), '{}') AS durations, coalesce(sum(n_written), 0)::bigint AS n_written,
           coalesce(sum(n_rejected), 0)::bigint AS n_rejected, coalesce(sum(n_filtered), 0)::bigint AS n_filtered,
           coalesce(sum(n_gap), 0)::bigint AS n_gap
    FROM (SELECT batch_id, attempt FROM tideline.batch
          WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT %(most)s) AS newest
    CROSS JOIN LATERAL (
        SELECT extract(epoch FROM ended_at - started_at)::float8 AS took FROM tideline.attempt
        WHERE attempt.attempt = newest.attempt AND outcome = 'published' AND ended_at > now() - make_interval(secs => %(seconds)s)
        OFFSET 0
    ) AS published
    CROSS JOIN LATERAL (
        SELECT sum(n_written) AS n_written, sum(n_rejected) AS n_rejected, sum(n_filtered) AS n_filtered, sum(n_gap) AS n_gap
        FROM tideline.batch_range WHERE batch_range.batch_id = newest.batch_id
    ) AS counts
) AS work
ORDER BY pipeline;
