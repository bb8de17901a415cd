-- Copy an attempt's staged rejects into the rejects of the batch.
INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, attempt_id, step, reason, kafka_timestamp_ms, key, value, headers)
SELECT stream_id, kafka_offset, %(batch_id)s, attempt_id, step, reason, kafka_timestamp_ms, key, value, headers
FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s;
