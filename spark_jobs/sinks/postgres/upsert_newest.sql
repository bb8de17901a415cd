-- Insert the newest record of each key, or let it replace the row of the key, which is older.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, s.kafka_topic_id, s.kafka_partition, s.kafka_offset, s.tideline_batch FROM {newest} s
WHERE NOT s.loses_to_row AND NOT s.loses_to_mark
ORDER BY s.kafka_partition, s.kafka_offset, s.kafka_topic_id
{on_conflict};
