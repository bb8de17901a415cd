-- A replay takes the place of what the output holds of its ranges, whichever batch had put it there. What lies beside them stays.
WITH ranges AS MATERIALIZED (
    SELECT topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
)
DELETE FROM {target} t USING ranges r
WHERE t.kafka_topic_id = r.topic_id AND t.kafka_partition = r.partition AND t.kafka_offset >= r.start_offset AND t.kafka_offset < r.end_offset;
