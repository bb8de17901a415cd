-- Who accounts for the offsets of each stream, from its start to its head: how many a batch has loaded, how many are holes.
-- `missing` is what nobody accounts for; the laws of the ledger keep it empty. `before_start` is what backfills have loaded before the start.
SELECT stream_id, topic, topic_id, partition, state::text, start_offset, next_offset, n_loaded, n_skipped, n_lost,
       (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}') FROM unnest(missing) AS piece) AS missing,
       (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}') FROM unnest(before_start) AS piece) AS before_start
FROM tideline.stream
CROSS JOIN LATERAL (
    SELECT coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE batch_id IS NOT NULL), 0)::bigint AS n_loaded,
           coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole = 'skipped'), 0)::bigint AS n_skipped,
           coalesce(sum(upper(offsets) - lower(offsets)) FILTER (WHERE hole = 'lost'), 0)::bigint AS n_lost,
           int8multirange(int8range(start_offset, next_offset)) - coalesce(range_agg(offsets::int8range), '{}') AS missing,
           int8multirange(int8range(0, start_offset)) * range_agg(offsets::int8range) AS before_start
    FROM tideline.covering(stream_id, int8range(0, NULL))
) AS accounted
WHERE pipeline = %(pipeline)s
ORDER BY topic, created_at, partition, stream_id;
