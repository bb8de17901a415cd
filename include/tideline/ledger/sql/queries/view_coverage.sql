-- What accounts for the offsets of each stream, from its start to its head: how many offsets batches have loaded, and
-- how many are in holes. `missing` is what nothing accounts for; the laws of the ledger keep it empty. `before_start`
-- is what backfills have loaded before the start.
-- Reads all coverage of the pipeline once, and sorts none of it. Pieces tile a stretch if their lengths add up to its
-- length and each end except the last is also a beginning; sums of hashes check that. Missing offsets are computed only
-- for a stream that fails this check.
WITH accounted AS MATERIALIZED (
    SELECT stream_id,
           sum(ends - starts) FILTER (WHERE batch_id IS NOT NULL)::bigint AS n_loaded,
           sum(ends - starts) FILTER (WHERE hole = 'skipped')::bigint AS n_skipped,
           sum(ends - starts) FILTER (WHERE hole = 'lost')::bigint AS n_lost,
           sum(ends - starts) FILTER (WHERE hole = 'rewound')::bigint AS n_rewound,
           sum(ends - starts) FILTER (WHERE starts >= start_offset AND ends <= next_offset) AS n_between,
           sum(hashint8(ends) - hashint8(starts)::bigint) FILTER (WHERE starts >= start_offset AND ends <= next_offset) AS chain
    FROM (SELECT stream_id, start_offset, next_offset, batch_id, hole, lower(offsets) AS starts, upper(offsets) AS ends
          FROM tideline.coverage JOIN tideline.stream USING (stream_id) WHERE pipeline = %(pipeline)s OFFSET 0) AS piece
    GROUP BY stream_id
)
SELECT stream_id, topic, topic_id, partition, state::text, start_offset, next_offset,
       coalesce(n_loaded, 0) AS n_loaded, coalesce(n_skipped, 0) AS n_skipped, coalesce(n_lost, 0) AS n_lost, coalesce(n_rewound, 0) AS n_rewound,
       CASE WHEN coalesce(n_between, 0) = next_offset - start_offset
             AND coalesce(chain, 0) = hashint8(next_offset) - hashint8(start_offset)::bigint THEN '{}'
            ELSE (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}')
                  FROM unnest(int8multirange(int8range(start_offset, next_offset)) - coalesce((
                      SELECT range_agg(offsets::int8range) FROM tideline.covering(stream_id, int8range(start_offset, next_offset))), '{}')) AS piece)
       END AS missing,
       (SELECT coalesce(array_agg(ARRAY[lower(piece), upper(piece)] ORDER BY piece), '{}')
        FROM unnest((SELECT range_agg(offsets::int8range * int8range(0, start_offset))
                     FROM tideline.covering(stream_id, int8range(0, start_offset)))) AS piece) AS before_start
FROM tideline.stream LEFT JOIN accounted USING (stream_id)
WHERE pipeline = %(pipeline)s
ORDER BY topic, created_at, partition, stream_id;
