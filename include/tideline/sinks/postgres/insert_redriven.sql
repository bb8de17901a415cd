-- Insert the rows of a re-drive, as output of the batches that had rejected their records. Only rows of rejects that
-- the attempt has read are inserted, and each reject is matched by its attempt id. Rows of other records are left out,
-- and the row count then does not match. Publishing has locked the rejects before, so no reject can be deleted after
-- its row was inserted.
WITH rejects AS MATERIALIZED (
    SELECT reject.stream_id, reject.kafka_offset, reject.batch_id
    FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
    JOIN tideline.reject ON reject.stream_id = r.stream_id AND reject.kafka_offset = one.kafka_offset AND reject.attempt_id = one.rejected_by
    WHERE r.attempt_id = %(attempt_id)s
)
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, stream.topic_id, stream.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN rejects r ON r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
JOIN tideline.stream ON stream.stream_id = r.stream_id
WHERE s.tideline_task = ANY (%(tasks)s);
