-- name: limit_statements
-- End every later statement of the transaction that takes longer than this.
SELECT set_config('statement_timeout', %(milliseconds)s::text, true);

-- name: view_work
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

-- name: view_recent_work
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

-- name: view_recent_fields
-- How many fields that no column takes the records of each pipeline had, in batches that were published in the last seconds, over at most
-- its newest batches.
SELECT pipeline, n_fields
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT count(DISTINCT (part, name)) AS n_fields
    FROM (SELECT attempt FROM tideline.batch WHERE batch.pipeline = pipeline.pipeline ORDER BY batch_id DESC LIMIT %(most)s) AS newest
    JOIN tideline.attempt USING (attempt) JOIN tideline.attempt_field USING (attempt_id)
    WHERE outcome = 'published' AND ended_at > now() - make_interval(secs => %(seconds)s)
) AS fields
ORDER BY pipeline;

-- name: view_hole_sums
-- How many offsets of each pipeline are in holes, by kind.
SELECT pipeline, hole::text, sum(upper(c.offsets) - lower(c.offsets))::bigint AS n_offsets
FROM tideline.stream JOIN tideline.coverage c USING (stream_id)
WHERE hole IS NOT NULL
GROUP BY pipeline, hole
ORDER BY pipeline, hole;

-- name: may_see_rejects
-- Whether this role may read rejects: one that only looks at numbers may lack the right, because records are in them.
SELECT has_table_privilege('tideline.reject', 'SELECT') AS may;

-- name: view_reject_steps
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

-- name: view_outbox
-- How many published batches of each pipeline have no asset event yet, and since when the oldest of them waits.
SELECT pipeline, n_waiting, oldest_at
FROM tideline.pipeline
CROSS JOIN LATERAL (
    SELECT count(*) AS n_waiting, min(published_at) AS oldest_at FROM tideline.outbox
    WHERE outbox.pipeline = pipeline.pipeline AND announced_at IS NULL
) AS waiting
ORDER BY pipeline;

-- name: view_state_sizes
-- About how many keys each stateful pipeline keeps, and their bytes. These are the estimates that Postgres's planner uses, of
-- its last ANALYZE: counting ten million keys would take seconds. Null before the first ANALYZE.
SELECT pipeline, CASE WHEN reltuples >= 0 THEN round(coalesce(share, 0) * reltuples)::bigint END AS n_keys,
       CASE WHEN reltuples >= 0 THEN round(coalesce(share, 0) * pg_table_size(pg_class.oid))::bigint END AS n_bytes
FROM (SELECT DISTINCT pipeline FROM tideline.state_position) AS folded
CROSS JOIN pg_class
LEFT JOIN (
    SELECT name, share FROM pg_stats CROSS JOIN LATERAL unnest(most_common_vals::text::text[], most_common_freqs) AS common (name, share)
    WHERE schemaname = 'tideline' AND tablename = 'state' AND attname = 'pipeline'
) AS shares ON name = pipeline
WHERE pg_class.oid = 'tideline.state'::regclass
ORDER BY pipeline;
