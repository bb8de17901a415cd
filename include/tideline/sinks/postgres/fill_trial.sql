-- Put the rows that would be inserted or updated into a trial.
INSERT INTO {trial} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_columns}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_row AND NOT n.loses_to_mark;
