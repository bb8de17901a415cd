-- Create the schema and the table in which migrations are recorded. They must exist before the first migration.
SELECT pg_advisory_xact_lock(hashtext('tideline.migration'));  -- CREATE ... IF NOT EXISTS races with itself
CREATE SCHEMA IF NOT EXISTS tideline;
CREATE TABLE IF NOT EXISTS tideline.migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
