-- Of ranges with the number of records that an output table has to hold of each under their batch: those of which it holds another number.
SELECT w.batch_id, w.topic_id::text AS topic_id, w.partition, w.start_offset, count(DISTINCT t.kafka_offset) AS n_found
FROM unnest(%(batch_ids)s::bigint[], %(topic_ids)s::uuid[], %(partitions)s::integer[], %(starts)s::bigint[], %(ends)s::bigint[], %(n_written)s::bigint[])
     AS w (batch_id, topic_id, partition, start_offset, end_offset, n_written)
LEFT JOIN {table} t ON t.tideline_batch = w.batch_id AND t.kafka_topic_id = w.topic_id AND t.kafka_partition = w.partition
     AND t.kafka_offset >= w.start_offset AND t.kafka_offset < w.end_offset
GROUP BY w.batch_id, w.topic_id, w.partition, w.start_offset, w.n_written
HAVING count(DISTINCT t.kafka_offset) <> w.n_written
ORDER BY w.batch_id, w.partition;
