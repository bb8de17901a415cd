-- The place where migrations are recorded; there before the first of them.
SELECT pg_advisory_xact_lock(hashtext('tideline.migration'));  -- CREATE ... IF NOT EXISTS races with itself
CREATE SCHEMA IF NOT EXISTS tideline;
CREATE TABLE IF NOT EXISTS tideline.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
