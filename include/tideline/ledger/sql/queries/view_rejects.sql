-- Rejects of a pipeline with the bytes that were kept, the newest batch first. Takes the same filters as
-- view_reject_reasons.
SELECT batch_id, topic, partition, kafka_offset, kafka_timestamp_ms, step, reason, key, value, headers, rejected_at
FROM tideline.reject JOIN tideline.stream USING (stream_id)
WHERE pipeline = %(pipeline)s
  AND (%(batch_id)s::bigint IS NULL OR batch_id = %(batch_id)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reason), lower(%(reason_like)s)) > 0)
ORDER BY batch_id DESC, topic, partition, kafka_offset
LIMIT %(limit)s;
