-- name: prepare_migrations
-- Create the schema and the table in which migrations are recorded. They must exist before the first migration.
SELECT pg_advisory_xact_lock(hashtext('tideline.migration'));  -- CREATE ... IF NOT EXISTS races with itself
CREATE SCHEMA IF NOT EXISTS tideline;
CREATE TABLE IF NOT EXISTS tideline.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- name: record_migration
-- Record an applied migration: its number, its file's name and its checksum.
INSERT INTO tideline.migration (number, name, checksum) VALUES (%(number)s, %(name)s, %(checksum)s);

-- name: drop_invalid_index
-- Drop an index whose creation was interrupted, so that it can be created again. Does not block writers.
DROP INDEX CONCURRENTLY {index};

-- name: find_invalid_index
-- Whether the ledger has an index of this name that is invalid, because its creation was interrupted.
SELECT indexrelid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = 'tideline'::regnamespace AND relname = %(name)s AND NOT indisvalid;

-- name: set_lock_timeout
-- Set how long the session's statements wait for a lock; 0 means no limit.
SELECT set_config('lock_timeout', %(milliseconds)s::text, false);

-- name: unlock_migrations
-- Release the lock of migrations outside of a transaction.
SELECT pg_advisory_unlock(hashtext('tideline.migration outside of a transaction'));

-- name: try_lock_migrations
-- Try to lock migrations outside of a transaction, for this session. -> taken: whether this session, and no other, may
-- now run them.
SELECT pg_try_advisory_lock(hashtext('tideline.migration outside of a transaction')) AS taken;
