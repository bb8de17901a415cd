-- Find a row of the target that has the key of a row that the batch would insert. The batch has not inserted it, and
-- the ranges of the batch allow no row of another batch there. So another writer has inserted it. The row's own batch
-- id and its pipeline are returned for the message.
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
