-- Insert the rows of the winning tasks into the target, with the coordinates of their records. Rows that belong to no
-- range of the batch are left out, and the row count then does not match. The ranges are materialized because staging
-- tables have no statistics: the planner expects only a few rows and would look up each stream row by row, which takes
-- twice as long.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, batch_id, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
)
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, r.topic_id, r.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN ranges r ON r.stream_id = s.tideline_stream AND s.kafka_offset >= r.start_offset AND s.kafka_offset < r.end_offset
WHERE s.tideline_task = ANY (%(tasks)s);
