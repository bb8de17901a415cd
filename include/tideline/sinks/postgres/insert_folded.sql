-- Insert the rows that the winning tasks of a stateful pipeline have staged. The row of a timer has the coordinates of
-- the last record of its key, which an earlier batch may have loaded. Any other row that belongs to no range of the
-- batch is left out, and the row count then does not match.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, stream.topic_id, stream.partition, s.kafka_offset, b.batch_id
FROM {staging} s
JOIN tideline.batch b ON b.batch_id = %(batch_id)s
JOIN tideline.stream ON stream.stream_id = s.tideline_stream AND stream.pipeline = b.pipeline
LEFT JOIN tideline.batch_range r ON r.batch_id = b.batch_id AND r.stream_id = s.tideline_stream AND r.offsets @> s.kafka_offset
WHERE s.tideline_task = ANY (%(tasks)s) AND (s.tideline_expired OR r.batch_id IS NOT NULL);
