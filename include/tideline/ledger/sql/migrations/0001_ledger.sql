-- The ledger: which offsets each batch owns, and how far each stream is. Its laws are constraints and triggers, so that no code
-- path, and no person at a psql prompt, can break them by mistake.
--
-- int8range(id, id, '[]') WITH && stands for "same id" in exclusion constraints: it needs no extension, where `id WITH =` needs btree_gist.

CREATE TYPE tideline.batch_kind AS ENUM ('live', 'backfill', 'replay');
CREATE TYPE tideline.batch_state AS ENUM ('planned', 'writing', 'failed', 'published', 'advanced', 'abandoned', 'superseded');
CREATE TYPE tideline.stream_state AS ENUM ('active', 'stopped', 'retired');
CREATE TYPE tideline.hole AS ENUM ('skipped', 'lost');
CREATE TYPE tideline.attempt_outcome AS ENUM ('published', 'failed', 'superseded');

-- A range that is empty would pass every overlap check twice, and one without a bound would own the future.
CREATE DOMAIN tideline.offsets AS int8range
    CHECK (NOT isempty(VALUE) AND NOT lower_inf(VALUE) AND NOT upper_inf(VALUE) AND lower(VALUE) >= 0);

CREATE TABLE tideline.pipeline (
    pipeline text PRIMARY KEY CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tideline.stream (
    stream_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    cluster_id text NOT NULL,
    topic text NOT NULL,
    topic_id uuid NOT NULL,
    partition integer NOT NULL CHECK (partition >= 0),
    start_offset bigint NOT NULL CHECK (start_offset >= 0),
    next_offset bigint NOT NULL CHECK (next_offset >= start_offset),
    state tideline.stream_state NOT NULL DEFAULT 'active',
    stopped_because text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'stopped') = (stopped_because IS NOT NULL)),
    UNIQUE (pipeline, cluster_id, topic_id, partition)
);

CREATE TABLE tideline.batch (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    kind tideline.batch_kind NOT NULL,
    state tideline.batch_state NOT NULL DEFAULT 'planned',
    fence integer NOT NULL DEFAULT 0 CHECK (fence >= 0),
    attempt uuid,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    seq integer NOT NULL CHECK (seq >= 0),
    supersedes bigint REFERENCES tideline.batch,
    planned_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((attempt IS NULL) = (fence = 0)),
    CHECK (attempt IS NOT NULL OR state IN ('planned', 'abandoned')),
    UNIQUE (pipeline, dag_id, run_id, seq)
);
CREATE INDEX batch_open ON tideline.batch (pipeline, batch_id) WHERE state IN ('planned', 'writing', 'failed', 'published');

CREATE TABLE tideline.attempt (
    attempt_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    batch_id bigint NOT NULL REFERENCES tideline.batch,
    fence integer NOT NULL CHECK (fence > 0),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    heartbeat_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    outcome tideline.attempt_outcome,
    problem text,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    task_id text NOT NULL,
    try_number integer NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    UNIQUE (batch_id, fence)
);
ALTER TABLE tideline.batch ADD FOREIGN KEY (attempt) REFERENCES tideline.attempt (attempt);

-- Which batches a DAG run works on: those that it planned, and open ones of earlier runs that it came to finish.
CREATE TABLE tideline.run_batch (
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    position integer NOT NULL CHECK (position >= 0),
    batch_id bigint NOT NULL REFERENCES tideline.batch,
    PRIMARY KEY (pipeline, dag_id, run_id, position),
    UNIQUE (pipeline, dag_id, run_id, batch_id)
);

CREATE TABLE tideline.batch_range (
    batch_id bigint NOT NULL REFERENCES tideline.batch,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    offsets tideline.offsets NOT NULL,
    gaps_allowed boolean NOT NULL,
    reserves boolean NOT NULL DEFAULT true,
    planned_log_start bigint NOT NULL,
    planned_end bigint NOT NULL,
    n_read bigint CHECK (n_read >= 0),
    n_written bigint CHECK (n_written >= 0),
    n_rejected bigint CHECK (n_rejected >= 0),
    n_filtered bigint CHECK (n_filtered >= 0),
    n_gap bigint CHECK (n_gap >= 0),
    first_read bigint,
    last_read bigint,
    published_log_start bigint,
    published_end bigint,
    PRIMARY KEY (batch_id, stream_id),
    CONSTRAINT planned_within_log CHECK (planned_log_start <= lower(offsets) AND planned_end >= upper(offsets)),
    CONSTRAINT counts_together CHECK (
        num_nulls(n_read, n_written, n_rejected, n_filtered, n_gap, published_log_start, published_end) IN (0, 7)),
    CONSTRAINT counts_add_up CHECK (n_read = n_written + n_rejected + n_filtered),
    CONSTRAINT offsets_add_up CHECK (n_read + n_gap = upper(offsets) - lower(offsets)),
    CONSTRAINT gaps_are_allowed CHECK (n_gap = 0 OR gaps_allowed),
    CONSTRAINT read_within_range CHECK (first_read >= lower(offsets) AND last_read < upper(offsets) AND first_read <= last_read),
    CONSTRAINT end_not_behind CHECK (published_end >= upper(offsets)),
    -- With every offset accounted for, retention may pass by after the read; with gaps nobody can tell a gap from a loss.
    CONSTRAINT retention_not_ahead CHECK (published_log_start <= lower(offsets) OR n_gap = 0),
    CONSTRAINT one_owner_per_offset EXCLUDE USING gist (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&)
        WHERE (reserves)
);

CREATE TABLE tideline.coverage (
    coverage_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    offsets tideline.offsets NOT NULL,
    batch_id bigint,
    hole tideline.hole,
    reason text CHECK (reason <> ''),
    decided_by text CHECK (decided_by <> ''),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range,
    CONSTRAINT batch_or_hole CHECK ((batch_id IS NULL) = (hole IS NOT NULL)),
    CONSTRAINT holes_have_a_name CHECK (hole IS NULL OR (reason IS NOT NULL AND decided_by IS NOT NULL)),
    CONSTRAINT one_owner_in_output EXCLUDE USING gist (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&)
);

CREATE TABLE tideline.reject (
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    kafka_offset bigint NOT NULL,
    batch_id bigint NOT NULL REFERENCES tideline.batch,
    step text NOT NULL,
    reason text NOT NULL,
    kafka_timestamp_ms bigint,
    key bytea,
    value bytea,
    headers bytea,
    rejected_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (stream_id, kafka_offset)
);
COMMENT ON COLUMN tideline.reject.headers IS 'UTF-8 JSON, [{"key": ..., "value": <base64>}, ...]; bytes, because the name of a header may hold what text cannot';

CREATE TABLE tideline.event (
    event_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text NOT NULL DEFAULT coalesce(nullif(current_setting('tideline.actor', true), ''), session_user),
    action text NOT NULL,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    batch_id bigint REFERENCES tideline.batch,
    stream_id bigint REFERENCES tideline.stream,
    attempt uuid,
    from_state text,
    to_state text,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX event_batch ON tideline.event (batch_id, event_id);
