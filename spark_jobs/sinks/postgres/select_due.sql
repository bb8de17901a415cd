-- One part of the keys whose timers have come.
SELECT key, stream_id, topic, partition, value::text AS value, expires_at, kafka_offset
FROM {due} AS due
WHERE (hashtext(key) & 2147483647) %% %(n_parts)s = %(part)s;
