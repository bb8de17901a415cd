-- Assign rejects to re-drives: those within their ranges that match the request and that no other open re-drive has
-- taken. -> how many.
INSERT INTO tideline.redrive (batch_id, stream_id, kafka_offset)
SELECT r.batch_id, reject.stream_id, reject.kafka_offset
FROM tideline.batch_range r JOIN tideline.reject ON reject.stream_id = r.stream_id AND kafka_offset >= lower(offsets) AND kafka_offset < upper(offsets)
WHERE r.batch_id = ANY (%(batch_ids)s)
  AND (%(of_batch)s::bigint IS NULL OR reject.batch_id = %(of_batch)s)
  AND (%(reason_like)s::text IS NULL OR strpos(lower(reject.reason), lower(%(reason_like)s)) > 0)
  AND NOT EXISTS (SELECT FROM tideline.redrive d JOIN tideline.batch USING (batch_id)
                  WHERE d.stream_id = reject.stream_id AND d.kafka_offset = reject.kafka_offset AND state IN ('planned', 'writing', 'failed'))
ORDER BY r.batch_id, reject.stream_id, reject.kafka_offset;
