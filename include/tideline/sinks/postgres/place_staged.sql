-- The rows that the winning tasks of a batch have staged, with the coordinates of their records. Rows that belong to no
-- range of the batch are left out. There is no semicolon, because other statements contain this one.
SELECT {staged_columns}, stream.topic_id AS kafka_topic_id, stream.partition AS kafka_partition, s.kafka_offset, r.batch_id AS tideline_batch
FROM {staging} s
JOIN tideline.batch_range r ON r.stream_id = s.tideline_stream AND s.kafka_offset >= lower(r.offsets) AND s.kafka_offset < upper(r.offsets)
JOIN tideline.stream ON stream.stream_id = r.stream_id
WHERE r.batch_id = %(batch_id)s AND s.tideline_task = ANY (%(tasks)s)
