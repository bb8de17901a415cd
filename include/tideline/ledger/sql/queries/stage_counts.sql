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
