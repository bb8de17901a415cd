-- name: keep_refused_keys
-- Leave in staging only other records of the keys whose newest record was refused: one of these may be the newest now.
-- The transaction is rolled back at its end.
DELETE FROM {staging} s
WHERE ({staged_key}) NOT IN (
    SELECT {tried_key} FROM {trial} tried JOIN {records} r USING (kafka_topic_id, kafka_partition, kafka_offset) WHERE r.reason IS NOT NULL
) OR EXISTS (
    SELECT FROM {records} r JOIN tideline.stream ON stream.topic_id = r.kafka_topic_id AND stream.partition = r.kafka_partition
    WHERE r.reason IS NOT NULL AND stream.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
);

-- name: fill_trial
-- Put the rows that would be inserted or updated into a trial.
INSERT INTO {trial} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_columns}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_row AND NOT n.loses_to_mark;
