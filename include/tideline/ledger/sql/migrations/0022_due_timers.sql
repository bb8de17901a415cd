-- Timers that have come are read in pages, in the order of timer and key: many keys may have the same timer.
CREATE INDEX state_due ON tideline.state (stream_id, expires_at, key) WHERE expires_at IS NOT NULL;
DROP INDEX tideline.state_timer;
