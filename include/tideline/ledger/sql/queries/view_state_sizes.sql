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
