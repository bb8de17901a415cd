-- The rows that the winning tasks of a re-drive have staged, with the coordinates of their records, as output of the
-- batches that had rejected these. Only rows of rejects that the attempt has read are returned, and each reject is
-- matched by its attempt id. There is no semicolon, because other statements contain this one.
SELECT {staged_columns}, stream.topic_id AS kafka_topic_id, stream.partition AS kafka_partition, s.kafka_offset, reject.batch_id AS tideline_batch
FROM {staging} s
JOIN (
    SELECT r.stream_id, one.kafka_offset, one.rejected_by
    FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
    WHERE r.attempt_id = %(attempt_id)s
) AS taken ON taken.stream_id = s.tideline_stream AND taken.kafka_offset = s.kafka_offset
JOIN tideline.reject ON reject.stream_id = taken.stream_id AND reject.kafka_offset = taken.kafka_offset AND reject.attempt_id = taken.rejected_by
JOIN tideline.stream ON stream.stream_id = reject.stream_id
WHERE s.tideline_task = ANY (%(tasks)s)
