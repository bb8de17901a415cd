-- Insert or replace the states that a batch has left. Triggers keep how they were before.
INSERT INTO tideline.state (pipeline, key, stream_id, value, expires_at, kafka_offset, batch_id)
SELECT %(pipeline)s, key, stream_id, value, expires_at, kafka_offset, %(batch_id)s FROM {staging} WHERE value IS NOT NULL
ON CONFLICT (pipeline, key) DO UPDATE
SET stream_id = excluded.stream_id, value = excluded.value, expires_at = excluded.expires_at, kafka_offset = excluded.kafka_offset,
    batch_id = excluded.batch_id;
