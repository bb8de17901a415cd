-- What a task read of one stream; a task that ran twice leaves the same row once.
INSERT INTO tideline.staged_count (attempt_id, stream_id, first_read, last_read, n_read, n_filtered, n_bytes)
VALUES (%(attempt_id)s, %(stream_id)s, %(first_read)s, %(last_read)s, %(n_read)s, %(n_filtered)s, %(n_bytes)s)
ON CONFLICT (attempt_id, stream_id, first_read) DO UPDATE
SET last_read = excluded.last_read, n_read = excluded.n_read, n_filtered = excluded.n_filtered, n_bytes = excluded.n_bytes;
