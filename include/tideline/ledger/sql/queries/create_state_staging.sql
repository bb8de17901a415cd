-- Create the table in which an attempt stages states. `value` is null for a key that has no state any more. Phase 1 folds records; in phase 2 keys
-- expire.
CREATE UNLOGGED TABLE {staging} (
    tideline_task bigint NOT NULL,
    phase smallint NOT NULL CHECK (phase IN (1, 2)),
    key text COLLATE "C" NOT NULL,
    stream_id bigint NOT NULL,
    value jsonb,
    expires_at timestamptz,
    kafka_offset bigint NOT NULL
);
