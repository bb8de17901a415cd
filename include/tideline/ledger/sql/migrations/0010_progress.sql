-- How far an attempt has come: what hangs beats as well as what works.

ALTER TABLE tideline.attempt ADD COLUMN n_read bigint NOT NULL DEFAULT 0 CHECK (n_read >= 0), ADD COLUMN progressed_at timestamptz;
COMMENT ON COLUMN tideline.attempt.n_read IS 'records read by the Spark tasks that had ended at its last heartbeat';
COMMENT ON COLUMN tideline.attempt.progressed_at IS 'when a heartbeat last found more of them than the one before';
