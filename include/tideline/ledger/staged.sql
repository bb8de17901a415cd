-- name: stage_counts
-- Stage what a task has read, by stream. A task that runs again overwrites its rows. Refused if the ledger does not
-- know the attempt: it may have given the id to another one, after a restore.
INSERT INTO tideline.staged_count (attempt_id, stream_id, first_read, last_read, n_read, n_filtered, n_bytes)
SELECT own.attempt_id, c.stream_id, c.first_read, c.last_read, c.n_read, c.n_filtered, c.n_bytes
FROM tideline.staging_id(%(attempt)s::uuid) AS own (attempt_id),
     unnest(%(stream_ids)s::bigint[], %(first_read)s::bigint[], %(last_read)s::bigint[], %(n_read)s::bigint[], %(n_filtered)s::bigint[],
            %(n_bytes)s::bigint[])
    AS c (stream_id, first_read, last_read, n_read, n_filtered, n_bytes)
ORDER BY c.stream_id, c.first_read
ON CONFLICT (attempt_id, stream_id, first_read) DO UPDATE
SET last_read = excluded.last_read, n_read = excluded.n_read, n_filtered = excluded.n_filtered, n_bytes = excluded.n_bytes;

-- name: stage_rejects
-- Stage records that could not be decoded, transformed or written. A task that runs again leaves each record once.
-- Refused if the ledger does not know the attempt: it may have given the id to another one, after a restore.
INSERT INTO tideline.staged_reject (attempt_id, stream_id, kafka_offset, step, reason, kafka_timestamp_ms, key, value, headers)
SELECT own.attempt_id, r.stream_id, r.kafka_offset, r.step, r.reason, r.kafka_timestamp_ms, r.key, r.value, r.headers
FROM tideline.staging_id(%(attempt)s::uuid) AS own (attempt_id),
     unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[], %(steps)s::text[], %(reasons)s::text[], %(timestamps_ms)s::bigint[],
            %(keys)s::bytea[], %(values)s::bytea[], %(headers)s::bytea[])
    AS r (stream_id, kafka_offset, step, reason, kafka_timestamp_ms, key, value, headers)
ON CONFLICT DO NOTHING;

-- name: count_rejects
-- How many records an attempt has rejected, the most common reason, and how many records it has read.
SELECT count(*) AS n_rejected, mode() WITHIN GROUP (ORDER BY reason) AS reason,
       (SELECT coalesce(sum(n_read), 0)::bigint FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s) AS n_read
FROM tideline.staged_reject WHERE attempt_id = %(attempt_id)s;

-- name: find_stager
-- The role of the executors, if it is another one than this session's and exists on this server.
SELECT name FROM tideline.role JOIN pg_roles ON rolname = name WHERE duty = 'stager' AND name <> current_user;

-- name: let_stager_in
-- Let the executors' role fill a staging table of the driver's.
GRANT SELECT, INSERT ON {staging} TO {stager};
