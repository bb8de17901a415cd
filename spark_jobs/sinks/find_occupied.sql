-- A row of the target that stands where the batch would insert one, and whose batch it names: nothing of the batch has put it there, and no other
-- batch may have.
WITH ranges AS MATERIALIZED (
    SELECT topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
)
SELECT t.kafka_partition, t.kafka_offset, t.tideline_batch, other.pipeline
FROM {target} t LEFT JOIN tideline.batch other ON other.batch_id = t.tideline_batch
JOIN ranges r ON t.kafka_topic_id = r.topic_id AND t.kafka_partition = r.partition AND t.kafka_offset >= r.start_offset AND t.kafka_offset < r.end_offset
WHERE ({target_key}) IN (SELECT {key} FROM {trial})
ORDER BY t.kafka_partition, t.kafka_offset LIMIT 1;
