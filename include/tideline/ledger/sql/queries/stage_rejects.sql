-- Stage records that could not be decoded, transformed or written. A task that runs again leaves each record once.
-- Refused if the ledger does not know the attempt: it may have given the id to another one, after a restore.
INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason, kafka_timestamp_ms, key, value, headers)
SELECT own.attempt_id, r.stream_id, r.kafka_offset, r.step, r.reason, r.kafka_timestamp_ms, r.key, r.value, r.headers
FROM tideline.staging_id(%(attempt)s::uuid) AS own (attempt_id),
     unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[], %(steps)s::text[], %(reasons)s::text[], %(timestamps_ms)s::bigint[],
            %(keys)s::bytea[], %(values)s::bytea[], %(headers)s::bytea[])
    AS r (stream_id, kafka_offset, step, reason, kafka_timestamp_ms, key, value, headers)
ON CONFLICT DO NOTHING;
