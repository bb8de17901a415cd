-- Rejects of a pipeline: of one batch, of reasons that contain a text, or all; without those that an open re-drive has taken. Streams of one topic
-- and partition are numbered: they are incarnations of a topic that was created again.
SELECT reject.stream_id, reject.kafka_offset,
       dense_rank() OVER (PARTITION BY stream.topic, stream.partition ORDER BY reject.stream_id) AS incarnation
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE stream.pipeline = %(pipeline)s
  AND (%(of_batch)s::bigint IS NULL OR reject.batch_id = %(of_batch)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reject.reason), lower(%(reason_like)s)) > 0)
  AND NOT EXISTS (SELECT FROM tideline.redrive d JOIN tideline.batch USING (batch_id)
                  WHERE d.stream_id = reject.stream_id AND d.kafka_offset = reject.kafka_offset AND state IN ('planned', 'writing', 'failed'))
ORDER BY incarnation, reject.stream_id, reject.kafka_offset;
