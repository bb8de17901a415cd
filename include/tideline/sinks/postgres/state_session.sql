-- name: select_states
-- The stored states of keys, with the streams that they belong to.
SELECT key, s.stream_id, topic, partition, s.value::text AS value, s.expires_at, s.kafka_offset
FROM tideline.state s JOIN tideline.stream USING (stream_id)
WHERE s.pipeline = %(pipeline)s AND s.key = ANY (%(keys)s);
