-- Put the rows that would be inserted or updated into a trial.
INSERT INTO {trial} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {newest}
WHERE NOT loses_to_row AND NOT loses_to_mark;
