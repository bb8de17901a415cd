-- The winners' rows become output, with the coordinates of their records; a row that belongs to no range of the batch stays behind and is missed.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {staged_columns}, t.topic_id, t.partition, s.kafka_offset, r.batch_id
FROM {staging} s
JOIN tideline.batch_range r ON r.batch_id = %(batch_id)s AND r.stream_id = s.tideline_stream AND r.offsets @> s.kafka_offset
JOIN tideline.stream t ON t.stream_id = s.tideline_stream
WHERE s.tideline_task = ANY (%(tasks)s)
  AND NOT EXISTS (SELECT FROM tideline.staged_reject j
                  WHERE j.attempt_id = %(attempt_id)s AND j.stream_id = s.tideline_stream AND j.kafka_offset = s.kafka_offset);
