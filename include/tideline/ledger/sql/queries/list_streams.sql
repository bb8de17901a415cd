-- The streams of a pipeline and what is taken at or above each head: ranges that batches have reserved, and holes. The
-- caller holds the pipeline's lock, so no other process changes these streams meanwhile.
SELECT stream_id, cluster_id, topic, topic_id, partition, start_offset, next_offset, accepted_end, leader_epoch, state::text, stopped_because,
       coalesce((SELECT array_agg(ARRAY[lower(offsets), upper(offsets)] ORDER BY offsets)
                 FROM (SELECT offsets FROM tideline.reserving(stream.stream_id, int8range(next_offset, NULL))
                       UNION ALL
                       SELECT offsets FROM tideline.covering(stream.stream_id, int8range(next_offset, NULL)) WHERE hole IS NOT NULL) AS taken), '{}') AS reserved
FROM tideline.stream
WHERE pipeline = %(pipeline)s
ORDER BY stream_id;
