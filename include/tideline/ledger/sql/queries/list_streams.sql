-- The streams of a pipeline and the ranges at or above each head that batches have reserved; locked in id order, so that two
-- transactions that lock several cannot deadlock. NO KEY: coverage of these streams can be published meanwhile.
WITH locked AS MATERIALIZED (
    SELECT * FROM tideline.stream WHERE pipeline = %(pipeline)s ORDER BY stream_id FOR NO KEY UPDATE
)
SELECT stream_id, cluster_id, topic, topic_id, partition, next_offset, state::text, stopped_because,
       coalesce((SELECT array_agg(ARRAY[lower(offsets), upper(offsets)] ORDER BY offsets)
                 FROM tideline.batch_range
                 WHERE batch_range.stream_id = locked.stream_id AND reserves
                   AND offsets::int8range && int8range(next_offset, NULL)), '{}') AS reserved
FROM locked
ORDER BY stream_id;
