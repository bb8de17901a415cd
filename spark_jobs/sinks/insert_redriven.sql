-- Rows of a re-drive become output of the batches that had rejected their records. Only where the reject is still there: without it a replay has
-- read the record again, and the row stays behind and is missed. Rejects stay locked until the end, so that none goes after its row was inserted.
WITH rejects AS MATERIALIZED (
    SELECT reject.stream_id, reject.kafka_offset, reject.batch_id
    FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset)
    WHERE redrive.batch_id = %(batch_id)s
    ORDER BY reject.stream_id, reject.kafka_offset FOR UPDATE OF reject
)
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, stream.topic_id, stream.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN rejects r ON r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
JOIN tideline.stream ON stream.stream_id = r.stream_id
WHERE s.tideline_task = ANY (%(tasks)s);
