-- name: list_rejecting_batches
-- The batches that had rejected these records, of those that a re-drive takes. Publishing makes sure that the rejects are
-- still the ones that the attempt has read.
SELECT reject.stream_id, reject.kafka_offset, reject.batch_id
FROM unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[]) AS wanted (stream_id, kafka_offset)
JOIN tideline.redrive d ON d.batch_id = %(batch_id)s AND d.stream_id = wanted.stream_id AND d.kafka_offset = wanted.kafka_offset
JOIN tideline.reject ON reject.stream_id = wanted.stream_id AND reject.kafka_offset = wanted.kafka_offset;
