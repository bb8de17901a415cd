-- Remember the newest tombstone of each key. A tombstone that a replay has read again gets the replay's batch.
INSERT INTO {marks} ({key}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_key}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_mark
ON CONFLICT ({key}) DO UPDATE SET (kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
    = (excluded.kafka_topic_id, excluded.kafka_partition, excluded.kafka_offset, excluded.tideline_batch);
