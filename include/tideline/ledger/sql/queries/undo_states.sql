-- Restore the states that a batch has changed to what they were before it. In a rewind, from the newest batch back.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND key = ANY (ARRAY(SELECT key FROM tideline.state_undo WHERE batch_id = %(batch_id)s AND NOT existed));
INSERT INTO tideline.state (pipeline, key, stream_id, value, expires_at, kafka_offset, batch_id)
SELECT %(pipeline)s, key, stream_id, value, expires_at, kafka_offset, of_batch FROM tideline.state_undo WHERE batch_id = %(batch_id)s AND existed
ON CONFLICT (pipeline, key) DO UPDATE
SET stream_id = excluded.stream_id, value = excluded.value, expires_at = excluded.expires_at, kafka_offset = excluded.kafka_offset,
    batch_id = excluded.batch_id;
