-- How many rejects of each pipeline are kept, by step. Counts at most `most` rejects of a pipeline, so that a pipeline that has
-- rejected everything for weeks makes the answer no slower.
SELECT pipeline, step, count(*) AS n_records
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT step FROM tideline.stream CROSS JOIN LATERAL (SELECT step FROM tideline.reject WHERE reject.stream_id = stream.stream_id OFFSET 0) AS kept
    WHERE stream.pipeline = pipeline.pipeline LIMIT %(most)s
) AS rejects
GROUP BY pipeline, step
ORDER BY pipeline, step;
