-- What an attempt has put aside before it publishes. Rows are keyed by attempt, so that a dead attempt's leftovers can never be
-- published by the next one; `publish` deletes them.

CREATE SCHEMA tideline_staging;  -- one table per attempt with its output rows, in the shape of the sink's table

-- Taken where the raw records pass. Keyed by the data and not by the Spark task: a task that ran twice counts once. The exclusion
-- constraint refuses two overlapping counts, which a retry over a log that was compacted in between could otherwise add up.
CREATE TABLE tideline.staged_count (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt ON DELETE CASCADE,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    first_read bigint NOT NULL,
    last_read bigint NOT NULL CHECK (last_read >= first_read),
    n_read bigint NOT NULL,
    n_filtered bigint NOT NULL,
    PRIMARY KEY (attempt_id, stream_id, first_read),
    CONSTRAINT counted_once EXCLUDE USING gist (
        int8range(attempt_id, attempt_id, '[]') WITH &&, int8range(stream_id, stream_id, '[]') WITH &&, int8range(first_read, last_read, '[]') WITH &&)
);

CREATE TABLE tideline.staged_reject (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt ON DELETE CASCADE,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    kafka_offset bigint NOT NULL,
    step text NOT NULL,
    reason text NOT NULL,
    kafka_timestamp_ms bigint,
    key bytea,
    value bytea,
    headers bytea,
    PRIMARY KEY (attempt_id, stream_id, kafka_offset)
);
