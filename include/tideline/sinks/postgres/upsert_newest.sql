-- Insert the newest record of each key, or let it replace the row of the key, which is older.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_columns}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_row AND NOT n.loses_to_mark
ORDER BY n.kafka_partition, n.kafka_offset, n.kafka_topic_id
{on_conflict};
