-- The ledger: which offsets each batch owns, how far each stream is, and what was decided about it. Its laws are constraints and triggers, so that no
-- code path, and no person at a psql prompt, can break them by mistake. Read from the top: each table is followed by its laws.
--
-- Three forms recur:
--  - int8range(id, id, '[]') WITH && stands for "same id" in exclusion constraints: it needs no extension, where `id WITH =` needs btree_gist.
--  - SET search_path: a trigger runs with the search path of the session, in which a role could have put operators and functions of its own before those
--    that the laws mean.
--  - SECURITY DEFINER: what only the laws write (history, outbox, letters, undo, offsets that are free again) is written with the rights of the ledger's
--    owner, so that no role needs the right to write there by itself.
--
-- `tideline migrate` creates the schema `tideline` and its table `migration`, in which this file is recorded, before it applies the first file.

CREATE TYPE tideline.batch_kind AS ENUM ('live', 'backfill', 'replay', 'redrive');
CREATE TYPE tideline.batch_state AS ENUM ('planned', 'writing', 'failed', 'published', 'advanced', 'abandoned', 'superseded');
CREATE TYPE tideline.stream_state AS ENUM ('active', 'stopped', 'retired');
CREATE TYPE tideline.hole AS ENUM ('skipped', 'lost', 'rewound');
CREATE TYPE tideline.attempt_outcome AS ENUM ('published', 'failed', 'superseded');

-- A range that is empty would pass every overlap check twice, and one without a bound would own the future.
CREATE DOMAIN tideline.offsets AS int8range
    CHECK (NOT isempty(VALUE) AND NOT lower_inf(VALUE) AND NOT upper_inf(VALUE) AND lower(VALUE) >= 0);

-- For rows that are history. Every refusal says what was tried.
CREATE FUNCTION tideline.refuse() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% of tideline.% is refused: its rows are history', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

-- Pipelines ------------------------------------------------------------------------------------------------------------------------------------------

-- A pipeline that was given up stays in the ledger with its history, and would be listed, counted and alerted on for ever. A decision takes it out of
-- sight. It hides nothing that a folder declares, and the next plan takes it back.
CREATE TABLE tideline.pipeline (
    pipeline text PRIMARY KEY CHECK (pipeline ~ '^[a-z][a-z0-9_]{0,62}$'),
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);
COMMENT ON COLUMN tideline.pipeline.retired_at IS 'since when it is left out of lists and numbers where no folder declares it; null if it is shown';

-- What can still be written must be seen. Plans and decisions take the lock of this row first, so no batch is planned meanwhile.
CREATE FUNCTION tideline.check_retirement() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') = '' THEN
        RAISE EXCEPTION 'pipeline % is not retired without a reason', NEW.pipeline USING ERRCODE = 'restrict_violation';
    ELSIF EXISTS (SELECT FROM tideline.batch WHERE pipeline = NEW.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'pipeline % is not retired: batches of it are open', NEW.pipeline USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER pipeline_retires_when_idle BEFORE INSERT OR UPDATE ON tideline.pipeline FOR EACH ROW
    WHEN (NEW.retired_at IS NOT NULL) EXECUTE FUNCTION tideline.check_retirement();

-- Who took it out of sight, or brought it back, and why, is in the history.
CREATE FUNCTION tideline.record_retirement() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline)
    VALUES (CASE WHEN NEW.retired_at IS NULL THEN 'bring back pipeline' ELSE 'retire pipeline' END, NEW.pipeline);
    RETURN NULL;
END $$;
CREATE TRIGGER retirement_writes_its_history AFTER UPDATE ON tideline.pipeline FOR EACH ROW
    WHEN (OLD.retired_at IS DISTINCT FROM NEW.retired_at) EXECUTE FUNCTION tideline.record_retirement();

-- Streams --------------------------------------------------------------------------------------------------------------------------------------------

-- A partition of a topic, as one pipeline reads it. A topic that is created anew under its name has another id, and so other streams. `next_offset`
-- is the head: every offset before it is accounted for.
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
    -- Set when a person accepts that the log was cut: until the log has grown past what was planned or read, its end may lie this low.
    accepted_end bigint CHECK (accepted_end >= 0),
    -- Records keep the epoch of the leader that took them, and no log is cut without an election: where the newest record before what was planned is
    -- of a later epoch than the last look, the log was cut and has grown again.
    leader_epoch integer CHECK (leader_epoch >= 0),
    -- A topic that was given up for a later incarnation of its name may be followed again. What is read of it from then on may be older or newer than
    -- the records of the incarnations in between: offsets do not say it. So the stream remembers where its later records begin.
    returned_offset bigint,
    returned_behind bigint,
    CHECK ((state = 'stopped') = (stopped_because IS NOT NULL)),
    CONSTRAINT return_has_both CHECK ((returned_offset IS NULL) = (returned_behind IS NULL)),
    UNIQUE (pipeline, cluster_id, topic_id, partition)
);
COMMENT ON COLUMN tideline.stream.leader_epoch IS 'of the leader at the last look, when the log held all that was planned of it';
COMMENT ON COLUMN tideline.stream.returned_offset IS 'its head when it was first followed again after it had retired';
COMMENT ON COLUMN tideline.stream.returned_behind IS 'the newest stream of the ledger when it was last followed again';

-- Heads: only forward, and only over offsets that coverage accounts for, so that coverage always tiles [start_offset, next_offset). A retired stream
-- is history. It may come back as it was: stopped, until a person decides. Restored brokers may have its topic again.
CREATE FUNCTION tideline.check_stream() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.next_offset <> NEW.start_offset THEN
            RAISE EXCEPTION 'stream of %/%: a new head stands at its start', NEW.topic, NEW.partition USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.stream_id, NEW.pipeline, NEW.cluster_id, NEW.topic, NEW.topic_id, NEW.partition, NEW.start_offset) IS DISTINCT FROM
       (OLD.stream_id, OLD.pipeline, OLD.cluster_id, OLD.topic, OLD.topic_id, OLD.partition, OLD.start_offset) THEN
        RAISE EXCEPTION 'stream %: identity and start never change', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'retired' AND (NEW.state <> 'stopped' OR (NEW.next_offset, NEW.accepted_end, NEW.leader_epoch) IS DISTINCT FROM
        (OLD.next_offset, OLD.accepted_end, OLD.leader_epoch)) THEN
        RAISE EXCEPTION 'stream % is retired: it never changes', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'stream %: the head never goes back (from % to %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.next_offset > OLD.next_offset THEN
        IF NOT coalesce(int8range(OLD.next_offset, NEW.next_offset) <@ (
            SELECT range_agg(offsets::int8range) FROM tideline.covering(NEW.stream_id, int8range(OLD.next_offset, NEW.next_offset))), false) THEN
            RAISE EXCEPTION 'stream %: the head cannot pass unpublished offsets of [%, %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER head_only_moves_over_coverage BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.check_stream();

-- No statement sets these two columns itself.
CREATE FUNCTION tideline.note_return() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.returned_offset := NULL;
        NEW.returned_behind := NULL;
    ELSIF OLD.state = 'retired' AND NEW.state = 'stopped' THEN
        NEW.returned_offset := coalesce(OLD.returned_offset, NEW.next_offset);
        NEW.returned_behind := (SELECT max(stream_id) FROM tideline.stream);
    ELSE
        NEW.returned_offset := OLD.returned_offset;
        NEW.returned_behind := OLD.returned_behind;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stream_remembers_its_return BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.note_return();

-- A stream that starts, stops, goes on or retires, and each move of a head, is in the history.
CREATE FUNCTION tideline.record_stream() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.event (action, pipeline, stream_id, to_state, detail)
        VALUES ('start', NEW.pipeline, NEW.stream_id, NEW.state, jsonb_build_object('start_offset', NEW.start_offset));
    ELSIF NEW.state <> OLD.state THEN
        INSERT INTO tideline.event (action, pipeline, stream_id, from_state, to_state, detail)
        VALUES (CASE NEW.state WHEN 'stopped' THEN 'stop' WHEN 'active' THEN 'resume' ELSE 'retire' END,
                NEW.pipeline, NEW.stream_id, OLD.state, NEW.state, jsonb_build_object('because', NEW.stopped_because));
    ELSIF NEW.next_offset > OLD.next_offset THEN
        INSERT INTO tideline.event (action, pipeline, stream_id, detail)
        VALUES ('move head', NEW.pipeline, NEW.stream_id, jsonb_build_object('from', OLD.next_offset, 'to', NEW.next_offset));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER stream_writes_its_history AFTER INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.record_stream();
CREATE TRIGGER stream_is_never_deleted BEFORE DELETE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Batches and attempts -------------------------------------------------------------------------------------------------------------------------------

-- A batch is planned, claimed by an attempt with a fence one higher than that of the attempt before, published by the attempt that holds it, and
-- advanced when the heads have moved over it.
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
    reason text CHECK (reason <> ''),
    outside boolean NOT NULL DEFAULT false,
    written_by bigint,
    sealed_fence integer NOT NULL DEFAULT 0,
    stateful boolean NOT NULL DEFAULT false,
    -- A ledger that was restored to an earlier moment gives the numbers of batches and the fences of that moment again. Names that were built of them
    -- would meet the files, receipts and tables of the batches that had them before.
    identity uuid NOT NULL DEFAULT gen_random_uuid(),
    -- A batch that was never claimed has no attempt, and cannot have come further than planned.
    CHECK ((attempt IS NULL) = (fence = 0)),
    CHECK (attempt IS NOT NULL OR state IN ('planned', 'abandoned')),
    -- Rows outside of the database are there by a commit that the ledger has not seen: a published batch says whose it was.
    CONSTRAINT only_outside_is_sealed_and_settled CHECK (outside OR written_by IS NULL AND sealed_fence = 0),
    CONSTRAINT outside_names_its_writer CHECK (
        NOT outside OR CASE WHEN state IN ('published', 'advanced', 'superseded') THEN written_by IS NOT NULL
                            ELSE written_by IS NULL OR state = 'writing' END),
    -- Replays and re-drives load records that were folded already, and state is committed with the rows or not at all.
    CONSTRAINT state_is_folded_in_order CHECK (NOT stateful OR kind IN ('live', 'backfill') AND NOT outside),
    UNIQUE (pipeline, dag_id, run_id, seq),
    UNIQUE (identity)
);
COMMENT ON COLUMN tideline.batch.reason IS 'why somebody asked for it; null for what a schedule planned';
COMMENT ON COLUMN tideline.batch.outside IS 'whether its rows are committed outside of this database';
COMMENT ON COLUMN tideline.batch.written_by IS 'attempt_id of the attempt that has committed its rows outside';
COMMENT ON COLUMN tideline.batch.sealed_fence IS 'no attempt below it has committed or can ever commit outside: the sink was asked';
COMMENT ON COLUMN tideline.batch.stateful IS 'whether its records are folded into the state of its pipeline';
COMMENT ON COLUMN tideline.batch.identity IS 'drawn at random when the batch is planned; every name of the batch outside of the ledger is built of it';
CREATE INDEX batch_open ON tideline.batch (pipeline, batch_id) WHERE state IN ('planned', 'writing', 'failed', 'published');
CREATE INDEX batch_pipeline ON tideline.batch (pipeline, batch_id);
-- The few among many, however long the history is, that a person asks for by kind or state; open ones are in batch_open.
CREATE INDEX batch_of_kind ON tideline.batch (pipeline, kind, batch_id) WHERE kind <> 'live';
CREATE INDEX batch_given_up ON tideline.batch (pipeline, state, batch_id) WHERE state IN ('abandoned', 'superseded');

-- Each claim of a batch by a Spark driver. The number `attempt` is drawn at random: names outside of the ledger are built of it too.
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
    -- A driver that hangs sends heartbeats as well as one that works. How far it has come tells them apart.
    n_read bigint NOT NULL DEFAULT 0 CHECK (n_read >= 0),
    progressed_at timestamptz,
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    -- Two attempts with one fence would both hold the batch.
    UNIQUE (batch_id, fence)
);
COMMENT ON COLUMN tideline.attempt.n_read IS 'records read by the Spark tasks that had ended at its last heartbeat';
COMMENT ON COLUMN tideline.attempt.progressed_at IS 'when a heartbeat last found more of them than the one before';
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

-- A batch that began in a later state would have no history of how it came there.
CREATE FUNCTION tideline.check_new_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.state <> 'planned' THEN
        RAISE EXCEPTION 'a batch begins as planned, not as %', NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_begins_planned BEFORE INSERT ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_new_batch();

-- The state machine. `writing -> writing` is a takeover: a newer attempt, one fence higher. Two changes leave state, fence and attempt as they are: a
-- seal, and a settlement, which the publication follows in the same transaction. What may be committed outside is never abandoned. The head of a
-- stream that has retired is history, and no batch waits for it.
CREATE FUNCTION tideline.check_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.batch_id, NEW.pipeline, NEW.kind, NEW.dag_id, NEW.run_id, NEW.seq, NEW.planned_at) IS DISTINCT FROM
       (OLD.batch_id, OLD.pipeline, OLD.kind, OLD.dag_id, OLD.run_id, OLD.seq, OLD.planned_at)
       OR (NEW.supersedes, NEW.reason, NEW.outside, NEW.identity) IS DISTINCT FROM (OLD.supersedes, OLD.reason, OLD.outside, OLD.identity) THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.sealed_fence < OLD.sealed_fence THEN
        RAISE EXCEPTION 'batch %: a seal only rises', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.written_by IS DISTINCT FROM OLD.written_by AND (OLD.written_by IS NOT NULL OR OLD.state <> 'writing' OR NEW.state <> 'writing'
        OR EXISTS (SELECT FROM tideline.attempt WHERE attempt_id = NEW.written_by AND fence < NEW.sealed_fence)) THEN
        RAISE EXCEPTION 'batch %: only what no seal has ruled out is settled, once', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = OLD.state AND NEW.state IN ('writing', 'failed') AND (NEW.fence, NEW.attempt) = (OLD.fence, OLD.attempt)
       AND (NEW.sealed_fence > OLD.sealed_fence OR NEW.written_by IS DISTINCT FROM OLD.written_by) THEN
        RETURN NEW;
    END IF;
    IF NEW.sealed_fence > OLD.sealed_fence THEN
        RAISE EXCEPTION 'batch %: only an open batch that was claimed is sealed', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NOT (OLD.state || '>' || NEW.state) = ANY (ARRAY[
        'planned>writing', 'writing>writing', 'failed>writing', 'writing>failed', 'writing>published', 'published>advanced',
        'planned>abandoned', 'failed>abandoned', 'published>superseded', 'advanced>superseded']) THEN
        RAISE EXCEPTION 'batch %: no way from % to %', OLD.batch_id, OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'writing' AND (NEW.fence <> OLD.fence + 1 OR NEW.attempt IS NOT DISTINCT FROM OLD.attempt) THEN
        RAISE EXCEPTION 'batch %: a claim raises the fence by one and names a new attempt', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> 'writing' AND (NEW.fence, NEW.attempt) IS DISTINCT FROM (OLD.fence, OLD.attempt) THEN
        RAISE EXCEPTION 'batch %: only a claim changes the attempt', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'published' AND EXISTS (SELECT FROM tideline.batch_range WHERE batch_id = NEW.batch_id AND n_read IS NULL) THEN
        RAISE EXCEPTION 'batch %: a batch without counts cannot be published', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'abandoned' AND EXISTS (
        SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE intent.batch_id = NEW.batch_id AND fence >= NEW.sealed_fence) THEN
        RAISE EXCEPTION 'batch %: it may be committed outside, and is not sealed', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'advanced' AND NEW.kind = 'live' AND EXISTS (
        SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
        WHERE batch_id = NEW.batch_id AND next_offset < upper(offsets) AND stream.state <> 'retired') THEN
        RAISE EXCEPTION 'batch %: not every head has passed it', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_keeps_its_states BEFORE UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_batch();

-- Every change of state writes its own event. A batch that has ended gives back what it has reserved.
CREATE FUNCTION tideline.record_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.event (action, pipeline, batch_id, to_state)
        VALUES ('plan', NEW.pipeline, NEW.batch_id, NEW.state);
        RETURN NULL;
    END IF;
    IF NEW.sealed_fence > OLD.sealed_fence THEN
        INSERT INTO tideline.event (action, pipeline, batch_id, attempt, detail)
        VALUES ('seal', NEW.pipeline, NEW.batch_id, NEW.attempt, jsonb_build_object('below', NEW.sealed_fence));
    END IF;
    IF NEW.written_by IS DISTINCT FROM OLD.written_by THEN
        INSERT INTO tideline.event (action, pipeline, batch_id, attempt, detail)
        SELECT 'settle', NEW.pipeline, NEW.batch_id, NEW.attempt, jsonb_build_object('committed_by', fence)
        FROM tideline.attempt WHERE attempt_id = NEW.written_by;
    END IF;
    IF (NEW.state, NEW.fence) = (OLD.state, OLD.fence) THEN
        RETURN NULL;
    END IF;
    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)
    VALUES (CASE NEW.state WHEN 'writing' THEN 'claim' WHEN 'failed' THEN 'fail' WHEN 'published' THEN 'publish' WHEN 'advanced' THEN 'advance'
                           WHEN 'abandoned' THEN 'abandon' ELSE 'supersede' END,
            NEW.pipeline, NEW.batch_id, NEW.attempt, OLD.state, NEW.state);
    IF NEW.state = 'abandoned' THEN
        UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id AND reserves;
    END IF;
    IF NEW.state IN ('published', 'abandoned') THEN
        UPDATE tideline.batch_range SET alone = false WHERE batch_id = NEW.batch_id AND alone;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER batch_writes_its_history AFTER INSERT OR UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.record_batch();
CREATE TRIGGER batch_is_never_deleted BEFORE DELETE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Who wrote what under which fence is history. Only heartbeats go on, and one may still come after the end.
CREATE FUNCTION tideline.check_attempt() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.attempt_id, NEW.attempt, NEW.batch_id, NEW.fence, NEW.started_at, NEW.dag_id, NEW.run_id, NEW.task_id, NEW.try_number, NEW.host, NEW.pid)
       IS DISTINCT FROM
       (OLD.attempt_id, OLD.attempt, OLD.batch_id, OLD.fence, OLD.started_at, OLD.dag_id, OLD.run_id, OLD.task_id, OLD.try_number, OLD.host, OLD.pid)
       OR OLD.ended_at IS NOT NULL AND (NEW.ended_at, NEW.outcome, NEW.problem) IS DISTINCT FROM (OLD.ended_at, OLD.outcome, OLD.problem) THEN
        RAISE EXCEPTION 'UPDATE of tideline.attempt is refused: its rows are history' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.outcome = 'published' AND OLD.outcome IS NULL AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND attempt = NEW.attempt AND state IN ('published', 'advanced', 'superseded')) THEN
        RAISE EXCEPTION 'attempt % of batch % has not published it', NEW.fence, NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempt_keeps_its_end BEFORE UPDATE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.check_attempt();
CREATE TRIGGER attempt_is_never_deleted BEFORE DELETE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER attempt_is_never_truncated BEFORE TRUNCATE ON tideline.attempt FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Ranges and coverage --------------------------------------------------------------------------------------------------------------------------------

-- The offsets of one stream that a batch reads, what the log held when they were planned, and what was counted when they were published.
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
    n_bytes bigint CHECK (n_bytes >= 0),
    alone boolean NOT NULL DEFAULT false,
    PRIMARY KEY (batch_id, stream_id),
    -- What the log did not hold when it was planned may never come, or was gone already.
    CONSTRAINT planned_within_log CHECK (planned_log_start <= lower(offsets) AND planned_end >= upper(offsets)),
    -- A batch is published with all its counts. Each record that was read is in exactly one of them, and each offset was read or is a gap: else records
    -- would be missing in the output without a sign.
    CONSTRAINT counts_together CHECK (
        num_nulls(n_read, n_written, n_rejected, n_filtered, n_gap, published_log_start, published_end) IN (0, 7)),
    CONSTRAINT counts_add_up CHECK (n_read = n_written + n_rejected + n_filtered),
    CONSTRAINT offsets_add_up CHECK (n_read + n_gap = upper(offsets) - lower(offsets)),
    CONSTRAINT gaps_are_allowed CHECK (n_gap = 0 OR gaps_allowed),
    CONSTRAINT read_within_range CHECK (first_read >= lower(offsets) AND last_read < upper(offsets) AND first_read <= last_read),
    CONSTRAINT end_not_behind CHECK (published_end >= upper(offsets)),
    -- With every offset accounted for, retention may delete records once they are read; with gaps, a gap cannot be told from a loss.
    CONSTRAINT retention_not_ahead CHECK (published_log_start <= lower(offsets) OR n_gap = 0),
    CONSTRAINT alone_or_reserved CHECK (NOT (alone AND reserves)),
    -- Two batches with one offset would write its record twice.
    CONSTRAINT one_owner_per_offset EXCLUDE USING gist (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&)
        WHERE (reserves),
    -- Replays and re-drives reserve nothing, and inside the database they take turns when they publish. Outside, nothing may come between a commit
    -- and its settlement: only one that is open may have an offset.
    CONSTRAINT one_open_replay EXCLUDE USING gist (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&)
        WHERE (alone)
);
COMMENT ON COLUMN tideline.batch_range.n_bytes IS 'keys and values of the records read; what limits.batch_bytes goes by';
COMMENT ON COLUMN tideline.batch_range.alone IS 'of an open replay or re-drive of an outside sink: no other one may take these offsets before it ends';
-- Publishing a replay asks for each of its ranges which replays lie over it.
CREATE INDEX batch_range_replaying ON tideline.batch_range
    USING gist (int8range(stream_id, stream_id, '[]'), (offsets::int8range)) WHERE NOT reserves;

-- Who accounts for an offset: the batch whose output has its record, or a decision to do without it, a hole.
CREATE TABLE tideline.coverage (
    coverage_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    offsets tideline.offsets NOT NULL,
    batch_id bigint,
    hole tideline.hole,
    reason text CHECK (reason <> ''),
    decided_by text CHECK (decided_by <> ''),
    recorded_at timestamptz NOT NULL DEFAULT now(),
    -- A hole is new in the transaction that decides it, whatever the clock says: one that had stepped back took old holes for new ones, and refused
    -- what a backfill had left of them; one that had run ahead did the opposite. Compared for equality only: in a database that was restored from a
    -- dump, transactions are numbered from the start again.
    decided_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range,
    CONSTRAINT batch_or_hole CHECK ((batch_id IS NULL) = (hole IS NOT NULL)),
    -- Records that are left out on purpose have a reason, and a person who answers for it.
    CONSTRAINT holes_have_a_name CHECK (hole IS NULL OR (reason IS NOT NULL AND decided_by IS NOT NULL)),
    -- An offset with two owners would be in the output twice.
    CONSTRAINT one_owner_in_output EXCLUDE USING gist (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&)
);
COMMENT ON COLUMN tideline.coverage.decided_in IS 'the transaction that decided on a hole; what is left of one that is filled in part keeps it';
CREATE INDEX coverage_batch ON tideline.coverage (batch_id);
CREATE INDEX coverage_stream ON tideline.coverage (stream_id);
CREATE INDEX coverage_hole ON tideline.coverage (stream_id) WHERE hole IS NOT NULL;

-- Coverage of a stream that overlaps a range, and ranges that do, by the indexes of the exclusion constraints: a comparison of plain ids would read
-- the whole table.
--
-- A GiST index of Postgres (seen in 15, 16 and 18) can lose entries of living rows: a scan that is started again, as the inner side of a nested loop
-- is, marks entries by their place on a page that has been split meanwhile, by this session or another one. The exclusion constraints then do not see
-- what such an entry stands for: an offset could get two owners. A scan that is not started again loses none. So no query scans these indexes in a
-- join. It calls a function, and each call has a scan of its own. A function with a setting is never put into the query that calls it.
CREATE FUNCTION tideline.covering(stream bigint, wanted int8range) RETURNS SETOF tideline.coverage
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
CREATE FUNCTION tideline.reserving(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.batch_range
    WHERE reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
CREATE FUNCTION tideline.replaying(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.batch_range
    WHERE NOT reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

-- Ranges never change once planned, and none joins a batch that has begun. Live ones begin at or behind the head, over offsets that nothing accounts
-- for; backfills never take what a batch has loaded, and replays take nothing else: what they publish of other offsets would lie in the way of every
-- plan. Counts change only while an attempt writes, and later in one way only: rejects that were re-driven become written or filtered. A range gives
-- its offsets back when its batch is abandoned or rewound, and is alone exactly as long as its batch is open.
CREATE FUNCTION tideline.check_range() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner tideline.batch;
    head bigint;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF TG_OP = 'INSERT' THEN
        SELECT next_offset INTO head FROM tideline.stream WHERE stream_id = NEW.stream_id AND pipeline = owner.pipeline;
        IF owner.state <> 'planned' OR NEW.n_read IS NOT NULL OR NEW.reserves <> (owner.kind IN ('live', 'backfill')) OR head IS NULL THEN
            RAISE EXCEPTION 'batch %: a range belongs to a planned batch of its stream''s pipeline', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'live' AND (lower(NEW.offsets) < head OR EXISTS (SELECT FROM tideline.covering(NEW.stream_id, NEW.offsets))) THEN
            RAISE EXCEPTION 'batch %: live offsets % of stream % are accounted for', NEW.batch_id, NEW.offsets, NEW.stream_id
                USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'backfill' AND EXISTS (SELECT FROM tideline.covering(NEW.stream_id, NEW.offsets) c WHERE c.batch_id IS NOT NULL) THEN
            RAISE EXCEPTION 'batch %: offsets % of stream % are loaded', NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'replay' AND NOT coalesce(NEW.offsets::int8range <@ (
            SELECT range_agg(c.offsets::int8range) FROM tideline.covering(NEW.stream_id, NEW.offsets) c WHERE c.batch_id IS NOT NULL), false) THEN
            RAISE EXCEPTION 'batch %: not all offsets % of stream % are loaded', NEW.batch_id, NEW.offsets, NEW.stream_id
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.alone <> OLD.alone AND to_jsonb(NEW) - 'alone' = to_jsonb(OLD) - 'alone' THEN
        RETURN NEW;
    END IF;
    IF (NEW.batch_id, NEW.stream_id, NEW.offsets, NEW.gaps_allowed, NEW.planned_log_start, NEW.planned_end) IS DISTINCT FROM
       (OLD.batch_id, OLD.stream_id, OLD.offsets, OLD.gaps_allowed, OLD.planned_log_start, OLD.planned_end)
       OR (NEW.reserves <> OLD.reserves AND NOT (owner.state = 'abandoned' OR owner.stateful AND owner.state = 'superseded')) THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.reserves = OLD.reserves AND owner.state <> 'writing' AND NOT (
        owner.state IN ('published', 'advanced', 'superseded') AND NEW.n_rejected < OLD.n_rejected
        AND NEW.n_written >= OLD.n_written AND NEW.n_filtered >= OLD.n_filtered
        AND (NEW.n_read, NEW.n_gap, NEW.first_read, NEW.last_read, NEW.published_log_start, NEW.published_end, NEW.n_bytes) IS NOT DISTINCT FROM
            (OLD.n_read, OLD.n_gap, OLD.first_read, OLD.last_read, OLD.published_log_start, OLD.published_end, OLD.n_bytes)) THEN
        RAISE EXCEPTION 'batch % is %: its counts never change', OLD.batch_id, owner.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER range_stays_as_planned BEFORE INSERT OR UPDATE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.check_range();
CREATE TRIGGER range_is_never_deleted BEFORE DELETE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Open replays and re-drives of outside sinks have their offsets alone among each other. A pipeline whose sink was inside the database and is outside
-- now, or the other way round: what was planned for the former sink must not publish between a commit to the other one and its settlement.
CREATE FUNCTION tideline.check_alone() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner tideline.batch;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF NEW.alone <> (owner.outside AND owner.kind IN ('replay', 'redrive') AND owner.state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'batch %: a range of an open replay or re-drive of an outside sink is alone, and no other', NEW.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'INSERT' AND NOT NEW.reserves AND EXISTS (
        SELECT FROM tideline.replaying(NEW.stream_id, NEW.offsets) AS r JOIN tideline.batch AS b ON b.batch_id = r.batch_id
        WHERE b.kind IN ('replay', 'redrive') AND b.state IN ('planned', 'writing', 'failed') AND b.outside <> owner.outside) THEN
        RAISE EXCEPTION 'batch %: an open replay or re-drive of offsets % of stream % was planned for another kind of sink',
            NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER range_is_alone_while_open BEFORE INSERT OR UPDATE OF alone ON tideline.batch_range
    FOR EACH ROW EXECUTE FUNCTION tideline.check_alone();

-- Coverage names batches that are published, and nothing beside their ranges. A new hole takes no offsets that a batch has reserved.
CREATE FUNCTION tideline.check_coverage() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.batch_range r USING (batch_id)
        WHERE batch_id = NEW.batch_id AND r.stream_id = NEW.stream_id AND r.offsets @> NEW.offsets AND state IN ('published', 'advanced', 'superseded')) THEN
        RAISE EXCEPTION 'batch % has not published % of stream %', NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.hole IS NOT NULL AND (TG_OP = 'UPDATE' OR NEW.decided_in = pg_current_xact_id()) AND EXISTS (
        SELECT FROM tideline.reserving(NEW.stream_id, NEW.offsets)) THEN
        RAISE EXCEPTION 'offsets % of stream % are reserved by a batch: no hole', NEW.offsets, NEW.stream_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER coverage_is_published BEFORE INSERT OR UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.check_coverage();

-- Coverage changes hands by deletion and insertion, which are checked; a row that changed in place would show another decision, without an event.
CREATE TRIGGER coverage_never_changes BEFORE UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Offsets that are accounted for stay so: their owner may change within a transaction, but at its end each has one.
CREATE FUNCTION tideline.check_still_covered() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT coalesce(OLD.offsets::int8range <@ (
        SELECT range_agg(offsets::int8range) FROM tideline.covering(OLD.stream_id, OLD.offsets)), false) THEN
        RAISE EXCEPTION 'offsets of % of stream % would no longer be accounted for', OLD.offsets, OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER coverage_never_shrinks AFTER UPDATE OR DELETE ON tideline.coverage
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_still_covered();
CREATE TRIGGER coverage_is_never_truncated BEFORE TRUNCATE ON tideline.coverage EXECUTE FUNCTION tideline.refuse();

-- A hole that a rewind leaves is history of the rewind.
CREATE FUNCTION tideline.record_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, stream_id, detail)
    SELECT CASE NEW.hole WHEN 'skipped' THEN 'skip' ELSE 'accept loss' END, pipeline, stream_id,
           jsonb_build_object('from', lower(NEW.offsets), 'to', upper(NEW.offsets), 'reason', NEW.reason, 'decided_by', NEW.decided_by)
    FROM tideline.stream WHERE stream_id = NEW.stream_id;
    RETURN NULL;
END $$;
CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW
    WHEN (NEW.hole::text IN ('skipped', 'lost') AND NEW.decided_in = pg_current_xact_id()) EXECUTE FUNCTION tideline.record_hole();

-- Rows are there only while a transaction runs; triggers of the owner write them, and no role can.
CREATE TABLE tideline.gone_hole (
    gone_in xid8 NOT NULL DEFAULT pg_current_xact_id(),
    stream_id bigint NOT NULL,
    coverage_id bigint NOT NULL,
    offsets int8range NOT NULL,
    hole tideline.hole NOT NULL,
    reason text NOT NULL,
    decided_by text NOT NULL,
    recorded_at timestamptz NOT NULL,
    decided_in xid8 NOT NULL,
    PRIMARY KEY (gone_in, stream_id, coverage_id)
);
COMMENT ON TABLE tideline.gone_hole IS 'holes that a running transaction has deleted: what is left of one may be inserted again as it was';

-- A constraint trigger below forgets the hole when the transaction commits.
CREATE FUNCTION tideline.keep_gone_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.gone_hole (stream_id, coverage_id, offsets, hole, reason, decided_by, recorded_at, decided_in)
    VALUES (OLD.stream_id, OLD.coverage_id, OLD.offsets, OLD.hole, OLD.reason, OLD.decided_by, OLD.recorded_at, OLD.decided_in);
    RETURN NULL;
END $$;
CREATE TRIGGER hole_is_remembered AFTER DELETE ON tideline.coverage
    FOR EACH ROW WHEN (OLD.hole IS NOT NULL) EXECUTE FUNCTION tideline.keep_gone_hole();

-- A hole of another transaction is no new decision: it writes no event, and may lie over what a batch has reserved. So it has to be a piece of one
-- that this transaction has deleted, as a backfill leaves it that fills a hole in part.
CREATE FUNCTION tideline.check_old_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM tideline.gone_hole g
        WHERE gone_in = pg_current_xact_id() AND stream_id = NEW.stream_id AND offsets @> NEW.offsets::int8range
          AND (g.hole, g.reason, g.decided_by, g.recorded_at, g.decided_in) = (NEW.hole, NEW.reason, NEW.decided_by, NEW.recorded_at, NEW.decided_in)) THEN
        RAISE EXCEPTION 'offsets % of stream % are no rest of a hole that another transaction has decided', NEW.offsets, NEW.stream_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER old_hole_is_the_rest_of_one AFTER INSERT ON tideline.coverage
    FOR EACH ROW WHEN (NEW.hole IS NOT NULL AND NEW.decided_in <> pg_current_xact_id()) EXECUTE FUNCTION tideline.check_old_hole();

CREATE FUNCTION tideline.forget_gone_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM tideline.gone_hole WHERE gone_in = NEW.gone_in AND stream_id = NEW.stream_id AND coverage_id = NEW.coverage_id;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER gone_hole_is_forgotten AFTER INSERT ON tideline.gone_hole
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.forget_gone_hole();

-- History --------------------------------------------------------------------------------------------------------------------------------------------

-- What happened, in the order of event_id: every change of state, and every decision with who made it and why. Rows are written by the laws
-- themselves.
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
    detail jsonb NOT NULL DEFAULT '{}',
    login text DEFAULT session_user
);
COMMENT ON COLUMN tideline.event.login IS 'the Postgres user whose session it was, which no session can choose';
CREATE INDEX event_batch ON tideline.event (batch_id, event_id);
-- Upkeep prunes events by their time.
CREATE INDEX event_time ON tideline.event (pipeline, at);
-- The few events with a reason, among millions: the page lists what people have decided about a pipeline. A head that moves over a hole says nothing
-- that the event of the hole does not.
CREATE INDEX event_decided ON tideline.event (pipeline, event_id) WHERE detail ? 'reason' AND action <> 'move head';

-- The reason is set once, for the transaction, and stands in every event that it causes; an event that has its own keeps it.
CREATE FUNCTION tideline.carry_reason() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') <> '' THEN
        NEW.detail := jsonb_build_object('reason', current_setting('tideline.reason')) || NEW.detail;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_carries_the_reason BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.carry_reason();

-- When an event is, who caused it, and what a law records: the database alone says so. What a role may add is what no table shows.
CREATE FUNCTION tideline.check_event() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_owner boolean := current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID);
BEGIN
    NEW.at := clock_timestamp();
    NEW.actor := coalesce(nullif(current_setting('tideline.actor', true), ''), session_user);
    NEW.login := session_user;
    IF by_owner AND (pg_trigger_depth() > 1 OR NEW.action = 'prune events') THEN
        RETURN NEW;
    END IF;
    IF num_nonnulls(NEW.from_state, NEW.to_state) > 0 OR NEW.action NOT IN ('retry', 'refuse', 'supersede partly', 'recreate table') THEN
        RAISE EXCEPTION 'INSERT of "%" into tideline.event is refused: it is written with what it records', NEW.action
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_is_of_its_session BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_event();

-- A role that chose an event_id would put an event before others, or take the place of the next, which then fails. It acts as the owner because no
-- role may read the sequence.
CREATE FUNCTION tideline.check_event_id() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.event_id <> currval('tideline.event_event_id_seq') THEN
        RAISE EXCEPTION 'INSERT into tideline.event is refused: event_id % was chosen by the statement', NEW.event_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_is_the_newest BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_event_id();

-- No event ever changes.
CREATE TRIGGER event_is_append_only BEFORE UPDATE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON tideline.event EXECUTE FUNCTION tideline.refuse();

-- Old events may go; never those of a batch that is open, none of the last day, whatever moment is named, and only where the owner of the ledger
-- deletes.
CREATE FUNCTION tideline.check_prune() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID)
       AND OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND OLD.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER event_is_only_pruned BEFORE DELETE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_prune();

-- Other roles prune by this function only. It leaves an event, which the next call does not delete before it is old itself.
CREATE FUNCTION tideline.prune_events(name text, keep_days integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earliest timestamptz := now() - make_interval(days => keep_days);
    n_events bigint;
BEGIN
    IF keep_days >= 1 IS NOT TRUE THEN
        RAISE EXCEPTION 'events are kept for at least a day, not for % days', keep_days USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM set_config('tideline.prune_before', earliest::text, true);
    DELETE FROM tideline.event
    WHERE pipeline = name AND at < earliest
      AND NOT EXISTS (SELECT FROM tideline.batch
                      WHERE batch.batch_id = event.batch_id AND state IN ('planned', 'writing', 'failed', 'published'));
    GET DIAGNOSTICS n_events = ROW_COUNT;
    PERFORM set_config('tideline.prune_before', '', true);
    IF n_events > 0 THEN
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('prune events', name, jsonb_build_object('days', keep_days, 'n_events', n_events));
    END IF;
    RETURN n_events;
END $$;
COMMENT ON FUNCTION tideline.prune_events IS 'delete the events of a pipeline that are older than some days, except those of open or published batches';

-- Staging --------------------------------------------------------------------------------------------------------------------------------------------

-- What an attempt has put aside before it publishes. Rows are keyed by attempt, so that a dead attempt's leftovers can never be published by the next
-- one; `publish` deletes them.

CREATE SCHEMA tideline_staging;  -- one table per attempt with its output rows, in the shape of the sink's table

-- Taken where the raw records pass. Keyed by the data and not by the Spark task: a task that ran twice counts once. The exclusion constraint refuses
-- two overlapping counts, which a retry over a log that was compacted in between could otherwise add up.
CREATE TABLE tideline.staged_count (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt ON DELETE CASCADE,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    first_read bigint NOT NULL,
    last_read bigint NOT NULL CHECK (last_read >= first_read),
    n_read bigint NOT NULL,
    n_filtered bigint NOT NULL,
    n_bytes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (attempt_id, stream_id, first_read),
    CONSTRAINT counted_once EXCLUDE USING gist (
        int8range(attempt_id, attempt_id, '[]') WITH &&, int8range(stream_id, stream_id, '[]') WITH &&, int8range(first_read, last_read, '[]') WITH &&)
);

-- The rejects that an attempt has found.
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

-- Which rejects an attempt has read, slice by slice: a Spark task reads one slice, and puts down what it has found before it gives anything on. Keyed
-- by the slice and not by the task: a task that runs twice leaves it once, or fails where it finds other rejects than the first time. It could not be
-- told then from which of the two the rows come that are staged.
CREATE TABLE tideline.staged_redrive (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt ON DELETE CASCADE,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    start_offset bigint NOT NULL,
    offsets bigint[] NOT NULL,
    rejected_by bigint[] NOT NULL,
    PRIMARY KEY (attempt_id, stream_id, start_offset),
    CONSTRAINT offsets_and_attempts_pair CHECK (cardinality(offsets) = cardinality(rejected_by))
);
COMMENT ON COLUMN tideline.staged_redrive.rejected_by IS 'attempt_id of the reject at each of the offsets';

CREATE FUNCTION tideline.check_slice() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'attempt %: rejects of stream % from % on were read twice, and were others the second time',
            OLD.attempt_id, OLD.stream_id, OLD.start_offset USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slice_is_read_once BEFORE UPDATE ON tideline.staged_redrive FOR EACH ROW EXECUTE FUNCTION tideline.check_slice();

-- What an attempt stages is stored under its id. A ledger that was restored to an earlier moment gives the ids of that moment again, and a driver
-- that has lived on would stage for the attempt that has its id now. The number of an attempt is drawn at random: the restored ledger does not know
-- that of such a driver, and refuses what its tasks stage. It runs as the owner: executors may not read attempts.
CREATE FUNCTION tideline.staging_id(number uuid) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint := (SELECT attempt_id FROM tideline.attempt WHERE attempt = number);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'staging for attempt % is refused: the ledger does not know it; was the ledger restored to an earlier moment?', number
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'attempt_is_known';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION tideline.staging_id IS 'the id under which an attempt stages; refused if the ledger does not know the attempt';

-- A staging table belongs to the role of the driver that has created it, and other roles clean up as well. The schema's owner may drop it. It is
-- called by the number of its attempt: one that no attempt of this ledger has created is of before a restore. What an attempt may still commit
-- outside stays until its batch is closed.
CREATE FUNCTION tideline.drop_staging(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number uuid := (regexp_match(name, '^attempt_([0-9a-f]{32})(?:_deleted|_state)?$'))[1]::uuid;
    owner tideline.batch;
BEGIN
    IF number IS NULL THEN
        RAISE EXCEPTION '% is no name of a staging table', name USING ERRCODE = 'invalid_name';
    END IF;
    SELECT batch.* INTO owner FROM tideline.attempt JOIN tideline.batch USING (batch_id) WHERE attempt.attempt = number;
    IF owner.state = 'writing' AND owner.attempt = number THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: its attempt holds batch %', name, owner.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF owner.state IN ('planned', 'writing', 'failed') AND EXISTS (
        SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE attempt.attempt = number) THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: batch % may be committed outside, and is not settled', name, owner.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tideline_staging.%I', name);
END $$;
COMMENT ON FUNCTION tideline.drop_staging IS 'drop a table of staged rows, unless its attempt holds its batch';

-- Rejects and re-drives ------------------------------------------------------------------------------------------------------------------------------

-- Records that could not be decoded, transformed or stored, with their bytes. An attempt publishes once at most, so stream, offset and attempt name
-- one reject for ever: what a later replay or re-drive rejects of the same record is another reject.
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
    attempt_id bigint NOT NULL REFERENCES tideline.attempt,
    PRIMARY KEY (stream_id, kafka_offset)
);
COMMENT ON COLUMN tideline.reject.headers IS 'UTF-8 JSON, [{"key": ..., "value": <base64>}, ...]; bytes, because the name of a header may hold what text cannot';
COMMENT ON COLUMN tideline.reject.attempt_id IS 'the attempt that has rejected the record last: the version of the reject';
CREATE INDEX reject_batch ON tideline.reject (batch_id);

-- Which rejects a re-drive takes: as explicit as the ranges of other batches, so that a retry takes the same. It settles the rejects that it has
-- read, each by its identity, and no other. How many were read and how many are left may agree while one was left out by the reader and another one
-- was taken away by a replay: the one that was not read would be deleted as settled.
CREATE TABLE tideline.redrive (
    batch_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    kafka_offset bigint NOT NULL,
    PRIMARY KEY (batch_id, stream_id, kafka_offset),
    FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range (batch_id, stream_id)
);
CREATE TRIGGER redrive_stays_as_planned BEFORE UPDATE OR DELETE ON tideline.redrive FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Rejects come, change and go only while an attempt is publishing that has to do with them. A reject that went by hand would leave its record neither
-- in the output nor in the rejects. Asked once for each statement: there may be half a million of them. Those of an outside batch come with the
-- attempt whose intent is settled, and with no other.
CREATE FUNCTION tideline.check_new_rejects() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id, attempt_id FROM came) AS c WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = c.batch_id AND batch.state = 'writing'
          AND c.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END)) THEN
        RAISE EXCEPTION 'INSERT into tideline.reject is refused: rejects come with the attempt that holds their batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER reject_comes_with_its_attempt AFTER INSERT ON tideline.reject
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_new_rejects();

-- A re-drive that fails again changes why and by which attempt a record was rejected, and never the record.
CREATE FUNCTION tideline.check_kept_rejects() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM became AS n JOIN was AS o USING (stream_id, kafka_offset)
        WHERE (n.batch_id, n.kafka_timestamp_ms, n.key, n.value, n.headers) IS DISTINCT FROM (o.batch_id, o.kafka_timestamp_ms, o.key, o.value, o.headers))
       OR (SELECT count(*) FROM became JOIN was USING (stream_id, kafka_offset)) <> (SELECT count(*) FROM was) THEN
        RAISE EXCEPTION 'UPDATE of tideline.reject is refused: a record is kept as it came' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM became AS n WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt) JOIN tideline.redrive ON redrive.batch_id = batch.batch_id
        WHERE batch.state = 'writing' AND n.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END
          AND redrive.stream_id = n.stream_id AND redrive.kafka_offset = n.kafka_offset)) THEN
        RAISE EXCEPTION 'UPDATE of tideline.reject is refused: a reject changes with the re-drive that has tried it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER reject_is_kept_as_it_came AFTER UPDATE ON tideline.reject
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_kept_rejects();

-- Rows are there only while a transaction runs; triggers of the owner write them, and no role can.
CREATE TABLE tideline.gone_reject (
    gone_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_ids bigint[] NOT NULL
);
COMMENT ON TABLE tideline.gone_reject IS 'for each statement of a running transaction that has deleted rejects, the batches one of which it has to publish';

-- Rejects of a batch that is rewound go with it. Others go with the re-drive or the replay that loads their records, which has to be published in the
-- same transaction. Any one of those that are being written and load all of them may be it.
CREATE FUNCTION tideline.check_gone_rejects() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    writing tideline.batch;
    loading bigint[] := '{}';
BEGIN
    IF NOT EXISTS (
        SELECT FROM gone AS g WHERE NOT EXISTS (SELECT FROM tideline.state_batch b WHERE b.batch_id = g.batch_id AND undo = 'applied')) THEN
        RETURN NULL;
    END IF;
    FOR writing IN SELECT * FROM tideline.batch WHERE state = 'writing' AND kind IN ('replay', 'redrive') LOOP
        IF NOT EXISTS (
            SELECT FROM gone AS g
            WHERE NOT EXISTS (
                SELECT FROM tideline.redrive r
                WHERE writing.kind = 'redrive' AND r.batch_id = writing.batch_id AND r.stream_id = g.stream_id AND r.kafka_offset = g.kafka_offset)
              AND NOT EXISTS (
                SELECT FROM tideline.batch_range r
                WHERE writing.kind = 'replay' AND r.batch_id = writing.batch_id AND r.stream_id = g.stream_id AND r.offsets @> g.kafka_offset)
              AND NOT EXISTS (SELECT FROM tideline.state_batch b WHERE b.batch_id = g.batch_id AND undo = 'applied')) THEN
            loading := loading || writing.batch_id;
        END IF;
    END LOOP;
    IF loading = '{}' THEN
        RAISE EXCEPTION 'DELETE of tideline.reject is refused: a reject goes with the re-drive or the replay that loads its record'
            USING ERRCODE = 'restrict_violation';
    END IF;
    INSERT INTO tideline.gone_reject (batch_ids) VALUES (loading);
    RETURN NULL;
END $$;
CREATE TRIGGER reject_goes_when_it_is_loaded AFTER DELETE ON tideline.reject
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_rejects();
CREATE TRIGGER reject_is_never_truncated BEFORE TRUNCATE ON tideline.reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Asked at the commit, for each statement that has deleted rejects.
CREATE FUNCTION tideline.check_loaded_rejects() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tideline.batch WHERE batch_id = ANY (NEW.batch_ids) AND state IN ('published', 'advanced')) THEN
        RAISE EXCEPTION 'DELETE of tideline.reject is refused: no batch that loads the records is published in the same transaction, of %', NEW.batch_ids
            USING ERRCODE = 'restrict_violation';
    END IF;
    DELETE FROM tideline.gone_reject WHERE gone_id = NEW.gone_id;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER gone_reject_is_loaded AFTER INSERT ON tideline.gone_reject
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_loaded_rejects();

-- Outside sinks --------------------------------------------------------------------------------------------------------------------------------------

-- Their rows are committed where the ledger's transaction does not reach. An attempt stores what it is about to commit (its intent), commits it, and
-- publishes it in the ledger (settles it). A later attempt can settle for one that died in between: everything is here. A sink that may forget its
-- receipts searches the output from `position` on.
CREATE TABLE tideline.intent (
    attempt_id bigint PRIMARY KEY REFERENCES tideline.attempt,
    batch_id bigint NOT NULL REFERENCES tideline.batch,
    output text NOT NULL CHECK (output <> ''),
    n_rows bigint NOT NULL CHECK (n_rows >= 0),
    written jsonb NOT NULL,
    redriven_streams bigint[] NOT NULL,
    redriven_offsets bigint[] NOT NULL,
    facts jsonb NOT NULL,
    filtered_by_difference boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    position jsonb,
    UNIQUE (batch_id, attempt_id),
    CONSTRAINT streams_and_offsets_pair CHECK (cardinality(redriven_streams) = cardinality(redriven_offsets))
);
COMMENT ON TABLE tideline.intent IS 'what an attempt has declared before its commit to an outside sink, and all that is needed to publish it later';
COMMENT ON COLUMN tideline.intent.written IS 'how many offsets are written: [{"stream_id": .., "n_written": ..}]';
COMMENT ON COLUMN tideline.intent.facts IS 'what the broker has reported after the read, by stream id: {"..": {"log_start": .., "end": ..}}';
COMMENT ON COLUMN tideline.intent.position IS 'where the output ended before the commit, in the form of its sink; null where receipts are never forgotten';
ALTER TABLE tideline.batch
    ADD CONSTRAINT written_as_intended FOREIGN KEY (batch_id, written_by) REFERENCES tideline.intent (batch_id, attempt_id);

-- An attempt whose batch was taken over or sealed must not begin a commit. The lock makes an intent wait for a takeover and a seal.
CREATE FUNCTION tideline.check_intent() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM tideline.batch WHERE batch_id = NEW.batch_id FOR NO KEY UPDATE;
    IF NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = NEW.batch_id AND outside AND state = 'writing' AND attempt.attempt_id = NEW.attempt_id AND attempt.fence >= sealed_fence) THEN
        RAISE EXCEPTION 'batch %: only the attempt that holds an outside batch intends to commit it', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER intent_is_of_the_holder BEFORE INSERT ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.check_intent();
CREATE TRIGGER intent_never_changes BEFORE UPDATE OR DELETE ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER intent_is_never_truncated BEFORE TRUNCATE ON tideline.intent FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- What an attempt was about to commit, and where, is in the history.
CREATE FUNCTION tideline.record_intent() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, detail)
    SELECT 'intend', pipeline, NEW.batch_id, attempt.attempt, jsonb_build_object('n_rows', NEW.n_rows, 'output', NEW.output)
    FROM tideline.batch JOIN tideline.attempt ON attempt.attempt_id = NEW.attempt_id WHERE batch.batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE TRIGGER intent_writes_its_history AFTER INSERT ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.record_intent();

-- Asked at the commit: an output has the rows of a settled batch, and the ledger must say so.
CREATE FUNCTION tideline.check_settled() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is settled is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER settlement_is_published AFTER UPDATE ON tideline.batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.written_by IS NOT NULL AND OLD.written_by IS NULL) EXECUTE FUNCTION tideline.check_settled();

-- What was staged by an attempt with an intent is what a later attempt settles: a task of it that runs late must change nothing. The lock makes such
-- a task wait for the intent that is being stored, and the intent for the task. It runs as the owner: executors may not lock attempts.
CREATE FUNCTION tideline.check_staged() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM tideline.attempt WHERE attempt_id IN (SELECT attempt_id FROM came) FOR KEY SHARE;
    IF EXISTS (SELECT FROM tideline.intent WHERE attempt_id IN (SELECT attempt_id FROM came)) THEN
        RAISE EXCEPTION 'tideline.% is refused: the attempt intends to commit what it has staged', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_came_before_the_intent AFTER INSERT ON tideline.staged_count
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER count_stays_as_intended AFTER UPDATE ON tideline.staged_count
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER reject_came_before_the_intent AFTER INSERT ON tideline.staged_reject
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER redrive_came_before_the_intent AFTER INSERT ON tideline.staged_redrive
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();

-- Nor does it go before its batch is settled or given up.
CREATE FUNCTION tideline.check_cleared() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tideline.intent JOIN tideline.batch USING (batch_id)
        WHERE state IN ('planned', 'writing', 'failed') AND attempt_id IN (SELECT attempt_id FROM gone)) THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may be committed outside, and is not settled', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_stays_until_settled AFTER DELETE ON tideline.staged_count
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();
CREATE TRIGGER reject_stays_until_settled AFTER DELETE ON tideline.staged_reject
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();
CREATE TRIGGER redrive_stays_until_settled AFTER DELETE ON tideline.staged_redrive
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();

-- What was only planned, or has failed before an intent, is in no output.
CREATE FUNCTION tideline.may_have_committed(name text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tideline.intent JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = intent.batch_id
                   WHERE b.pipeline = name AND b.state = 'failed' AND a.fence >= b.sealed_fence)
$$;
COMMENT ON FUNCTION tideline.may_have_committed(name text) IS 'whether an attempt at a failed batch of a pipeline may have committed it outside';
CREATE FUNCTION tideline.has_loaded(name text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tideline.batch WHERE pipeline = name AND state IN ('writing', 'published', 'advanced', 'superseded'))
        OR tideline.may_have_committed(name)
$$;
COMMENT ON FUNCTION tideline.has_loaded(name text) IS 'whether an output holds records of a pipeline, or may soon or unknown to the ledger: its claim moves by a decision only';

-- Outputs --------------------------------------------------------------------------------------------------------------------------------------------

-- With && it says "same name", which needs no extension, as int8range does for ids.
CREATE TYPE tideline.names AS RANGE (subtype = text, collation = "C");

-- Which pipeline writes which output, of every kind, so that two deployments that cannot see each other's declarations keep out of each other's
-- outputs, and do not load one pipeline into two of them in turns. Several pipelines may write one output if each of them says so.
CREATE TABLE tideline.claimed_output (
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    place text NOT NULL,
    shared boolean NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    purpose text NOT NULL,
    kind text NOT NULL,
    PRIMARY KEY (pipeline, purpose),
    CONSTRAINT output_has_a_kind CHECK (kind IN ('postgres', 'kafka', 'delta')),
    -- Several pipelines may send their rejects to one topic. It is no other pipeline's output for rows, unless that one shares it.
    CONSTRAINT output_has_a_purpose CHECK (purpose = 'rows' OR purpose = 'rejects' AND kind = 'kafka' AND shared),
    -- schema.table of the ledger's own database; cluster id and topic; the real path of a folder, or the address of one in an object store. Both
    -- bounds of a range have to fit into a page of the index.
    CONSTRAINT place_fits_its_kind CHECK (place ~ CASE kind WHEN 'postgres' THEN '^[^.]+\.[^.]+$' WHEN 'kafka' THEN '^[^/]+/[^/]+$' ELSE '^(/|s3://)' END
        AND octet_length(place) <= 1000),
    -- A pipeline that shares its output stands for its own name only, one that does not for all names there are.
    CONSTRAINT outputs_are_shared_by_consent EXCLUDE USING gist (
        tideline.names(kind || ' ' || place, kind || ' ' || place, '[]') WITH &&,
        (CASE WHEN shared THEN tideline.names(pipeline || ' ' || purpose, pipeline || ' ' || purpose, '[]') ELSE tideline.names(NULL, NULL) END) WITH &&)
);

-- Two deployments with one ledger may declare one pipeline with different outputs. Its records would go to the one or the other, in turns. What may
-- have been committed to the former one has to be settled or fenced there first: in the new one no receipt of it is found.
CREATE FUNCTION tideline.check_moved_output() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state = 'writing') THEN
        RAISE EXCEPTION 'output % of pipeline % does not move: a batch of it is being written', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    ELSIF tideline.may_have_committed(OLD.pipeline) THEN
        RAISE EXCEPTION 'output % of pipeline % does not move: a batch may have been committed to it', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    ELSIF coalesce(current_setting('tideline.reason', true), '') = '' AND tideline.has_loaded(OLD.pipeline) THEN
        RAISE EXCEPTION 'output % of pipeline % does not move without a reason: it has been loaded', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER output_moves_by_decision BEFORE UPDATE ON tideline.claimed_output FOR EACH ROW
    WHEN (OLD.purpose = 'rows' AND (OLD.kind, OLD.place, OLD.purpose, OLD.pipeline) IS DISTINCT FROM (NEW.kind, NEW.place, NEW.purpose, NEW.pipeline))
    EXECUTE FUNCTION tideline.check_moved_output();

-- A batch that is open may still be published into the output that its pipeline has. Its rejects are sent to the topic that is declared by then.
CREATE FUNCTION tideline.check_free_output() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'output % of pipeline % is not free: batches of it are open', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER output_is_freed_when_idle BEFORE DELETE ON tideline.claimed_output FOR EACH ROW
    WHEN (OLD.purpose = 'rows') EXECUTE FUNCTION tideline.check_free_output();

-- Who claimed, moved and freed an output is in the history.
CREATE FUNCTION tideline.record_output() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('free output', OLD.pipeline, jsonb_build_object('purpose', OLD.purpose, 'kind', OLD.kind, 'place', OLD.place));
    ELSIF TG_OP = 'UPDATE' AND (OLD.kind, OLD.place) <> (NEW.kind, NEW.place) THEN
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('move output', NEW.pipeline, jsonb_build_object('purpose', NEW.purpose, 'from_kind', OLD.kind, 'from_place', OLD.place,
            'kind', NEW.kind, 'place', NEW.place, 'shared', NEW.shared));
    ELSE
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('claim output', NEW.pipeline,
            jsonb_build_object('purpose', NEW.purpose, 'kind', NEW.kind, 'place', NEW.place, 'shared', NEW.shared));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER output_writes_its_history AFTER INSERT OR UPDATE OR DELETE ON tideline.claimed_output
    FOR EACH ROW EXECUTE FUNCTION tideline.record_output();

-- What follows a publication -------------------------------------------------------------------------------------------------------------------------

-- Each published batch is announced once as an asset event. Rows are written by the publishing transaction itself, so that no published batch is
-- missing here, whichever code has published it.
CREATE TABLE tideline.outbox (
    batch_id bigint PRIMARY KEY REFERENCES tideline.batch,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    n_tries integer NOT NULL DEFAULT 0 CHECK (n_tries >= 0),
    dag_id text,
    run_id text,
    task_id text,
    announced_at timestamptz,
    CONSTRAINT a_try_names_its_task CHECK (num_nulls(dag_id, run_id, task_id) = CASE n_tries WHEN 0 THEN 3 ELSE 0 END)
);
COMMENT ON COLUMN tideline.outbox.n_tries IS 'how many tasks have taken it to announce it; the last one is named';
COMMENT ON COLUMN tideline.outbox.announced_at IS 'when its event was seen in Airflow';
CREATE INDEX outbox_waiting ON tideline.outbox (pipeline, batch_id) WHERE announced_at IS NULL;

CREATE FUNCTION tideline.fill_outbox() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (NEW.batch_id, NEW.pipeline);
    RETURN NULL;
END $$;
CREATE TRIGGER publication_enters_the_outbox AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.state = 'published' AND OLD.state <> 'published') EXECUTE FUNCTION tideline.fill_outbox();

-- Tries are counted one by one, and what was announced stays so.
CREATE FUNCTION tideline.check_outbox() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.n_tries <> 0 OR NEW.announced_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND pipeline = NEW.pipeline AND state IN ('published', 'advanced', 'superseded')) THEN
            RAISE EXCEPTION 'batch %: only a batch that is published enters the outbox', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF OLD.announced_at IS NOT NULL OR (NEW.batch_id, NEW.pipeline, NEW.published_at) IS DISTINCT FROM (OLD.batch_id, OLD.pipeline, OLD.published_at)
       OR NEW.n_tries NOT IN (OLD.n_tries, OLD.n_tries + 1) THEN
        RAISE EXCEPTION 'batch % of the outbox: what was announced, and what was published, never changes', OLD.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER outbox_keeps_its_word BEFORE INSERT OR UPDATE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.check_outbox();
CREATE TRIGGER outbox_is_never_deleted BEFORE DELETE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Dead letters: the rejects of a published batch are sent to a topic once, if its pipeline declares one. Written by the publishing transaction as
-- well. A re-drive owes none: the rejects that it leaves still belong to the batches that had rejected them.
CREATE TABLE tideline.letters (
    batch_id bigint PRIMARY KEY REFERENCES tideline.batch,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at timestamptz
);
COMMENT ON TABLE tideline.letters IS 'published batches with rejects, and whether these are in the topic of rejects';
COMMENT ON COLUMN tideline.letters.sent_at IS 'when the transaction with its rejects was found to be committed';
CREATE INDEX letters_owed ON tideline.letters (pipeline, batch_id) WHERE sent_at IS NULL;

-- The rejects are there by then: a batch that is published gets no more.
CREATE FUNCTION tideline.owe_letters() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.letters (batch_id, pipeline)
    SELECT NEW.batch_id, NEW.pipeline WHERE EXISTS (SELECT FROM tideline.reject WHERE batch_id = NEW.batch_id);
    RETURN NULL;
END $$;
CREATE TRIGGER publication_owes_letters AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.state = 'published' AND OLD.state <> 'published') EXECUTE FUNCTION tideline.owe_letters();

-- Letters that counted as owed once more would be sent twice.
CREATE FUNCTION tideline.check_letters() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.sent_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND pipeline = NEW.pipeline AND state IN ('published', 'advanced', 'superseded')) THEN
            RAISE EXCEPTION 'batch %: only a batch that is published owes letters', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSIF OLD.sent_at IS NOT NULL OR NEW.sent_at IS NULL
       OR (NEW.batch_id, NEW.pipeline, NEW.published_at) IS DISTINCT FROM (OLD.batch_id, OLD.pipeline, OLD.published_at) THEN
        RAISE EXCEPTION 'letters of batch %: they are sent once, and nothing else changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER letters_are_sent_once BEFORE INSERT OR UPDATE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.check_letters();
CREATE TRIGGER letters_are_never_forgotten BEFORE DELETE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER letters_are_never_truncated BEFORE TRUNCATE ON tideline.letters FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- State ----------------------------------------------------------------------------------------------------------------------------------------------

-- What a processor keeps for each key, folded in the order of offsets. The law: after every commit the state of a stream is the fold over exactly the
-- loaded records before its position. State, undo and positions change in the one transaction that publishes a batch, or rewinds some.

-- Each return to an earlier batch, and why. A row is never changed or deleted.
CREATE TABLE tideline.rewind (
    rewind_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    to_batch bigint REFERENCES tideline.batch,
    reason text NOT NULL CHECK (reason <> ''),
    decided_by text NOT NULL DEFAULT current_setting('tideline.actor'),
    at timestamptz NOT NULL DEFAULT now(),
    decided_in xid8 NOT NULL DEFAULT pg_current_xact_id()
);
COMMENT ON COLUMN tideline.rewind.to_batch IS 'the last batch that stays folded; null for none';
CREATE INDEX rewind_pipeline ON tideline.rewind (pipeline, rewind_id);

CREATE TABLE tideline.state_batch (
    batch_id bigint PRIMARY KEY REFERENCES tideline.batch,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    seq bigint NOT NULL CHECK (seq > 0),
    processor text NOT NULL CHECK (processor <> ''),
    n_keys bigint NOT NULL CHECK (n_keys >= 0),
    n_expired bigint NOT NULL CHECK (n_expired >= 0),
    undo text NOT NULL DEFAULT 'kept' CHECK (undo IN ('kept', 'pruned', 'applied')),
    UNIQUE (pipeline, seq)
);
COMMENT ON TABLE tideline.state_batch IS 'the batches that are folded into the state of a pipeline, in order';
COMMENT ON COLUMN tideline.state_batch.processor IS 'the version of the processor that has folded it';
COMMENT ON COLUMN tideline.state_batch.undo IS 'what became of its undo: a rewind can apply it as long as it is kept';
CREATE INDEX state_batch_kept ON tideline.state_batch (pipeline, seq) WHERE undo = 'kept';

CREATE TABLE tideline.state_position (
    stream_id bigint PRIMARY KEY REFERENCES tideline.stream,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    max_time timestamptz,
    version bigint NOT NULL CHECK (version > 0),
    batch_id bigint REFERENCES tideline.state_batch
);
COMMENT ON TABLE tideline.state_position IS 'how far each stream is folded';
COMMENT ON COLUMN tideline.state_position.max_time IS 'the largest event time that was folded; the watermark is that less the lateness';
COMMENT ON COLUMN tideline.state_position.version IS 'counts every change, also back';
COMMENT ON COLUMN tideline.state_position.batch_id IS 'the batch that was folded last; null before the first one';
CREATE INDEX state_position_pipeline ON tideline.state_position (pipeline);

-- Without foreign keys: a batch may change half a million rows. Triggers ask once for each statement.
CREATE TABLE tideline.state (
    pipeline text NOT NULL,
    key text NOT NULL COLLATE "C" CHECK (key <> ''),
    stream_id bigint NOT NULL,
    value jsonb NOT NULL CHECK (jsonb_typeof(value) = 'object'),
    expires_at timestamptz,
    kafka_offset bigint NOT NULL,
    batch_id bigint NOT NULL,
    PRIMARY KEY (pipeline, key)
);
COMMENT ON COLUMN tideline.state.key IS 'the values of the key columns, as a JSON array';
COMMENT ON COLUMN tideline.state.stream_id IS 'the stream of the last record that was folded for this key';
COMMENT ON COLUMN tideline.state.kafka_offset IS 'the offset of that record';
COMMENT ON COLUMN tideline.state.batch_id IS 'the batch that has changed it last';
-- Timers that have come are read in pages, in the order of timer and key: many keys may have the same timer.
CREATE INDEX state_due ON tideline.state (stream_id, expires_at, key) WHERE expires_at IS NOT NULL;

CREATE TABLE tideline.state_undo (
    batch_id bigint NOT NULL,
    key text NOT NULL COLLATE "C",
    existed boolean NOT NULL,
    stream_id bigint,
    value jsonb,
    expires_at timestamptz,
    kafka_offset bigint,
    of_batch bigint,
    PRIMARY KEY (batch_id, key)
);
COMMENT ON TABLE tideline.state_undo IS 'the state of each key before a batch that has changed it';

-- Where the position of each stream was before a batch that has moved it.
CREATE TABLE tideline.state_position_undo (
    batch_id bigint NOT NULL REFERENCES tideline.state_batch,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    next_offset bigint NOT NULL,
    max_time timestamptz,
    of_batch bigint,
    PRIMARY KEY (batch_id, stream_id)
);

CREATE TABLE tideline.state_columns (
    pipeline text PRIMARY KEY REFERENCES tideline.pipeline,
    key_columns jsonb NOT NULL CHECK (jsonb_typeof(key_columns) = 'array'),
    columns jsonb NOT NULL CHECK (jsonb_typeof(columns) = 'object')
);
COMMENT ON TABLE tideline.state_columns IS 'which columns the stored states have: a changed type is refused before anything is read';
COMMENT ON COLUMN tideline.state_columns.columns IS 'by name, the type and the former names; columns that are gone stay, as old states still have them';

-- The batch that this transaction folds, and the one whose undo it has to apply next. A row of state_batch is there while its batch is being written
-- only in the transaction that publishes it.
CREATE FUNCTION tideline.folding(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT batch_id FROM tideline.batch JOIN tideline.state_batch USING (batch_id) WHERE batch.pipeline = name AND batch.state = 'writing'
$$;
CREATE FUNCTION tideline.undoing(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT batch_id FROM tideline.state_batch
    WHERE pipeline = name AND undo = 'kept' AND EXISTS (
        SELECT FROM tideline.rewind WHERE rewind.pipeline = name AND at = now() AND decided_in = pg_current_xact_id())
    ORDER BY seq DESC LIMIT 1
$$;

-- Who went back, to which batch and why, is in the history.
CREATE FUNCTION tideline.record_rewind() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, detail)
    VALUES ('rewind', NEW.pipeline, NEW.to_batch, jsonb_build_object('reason', NEW.reason));
    RETURN NULL;
END $$;
CREATE TRIGGER rewind_writes_its_history AFTER INSERT ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.record_rewind();
CREATE TRIGGER rewind_never_changes BEFORE UPDATE OR DELETE ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER rewind_is_never_truncated BEFORE TRUNCATE ON tideline.rewind FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- State: its batches ---------------------------------------------------------------------------------------------------------------------------------

-- A record that is loaded again is folded again, at the wrong place. A pipeline with state goes back, or not at all.
CREATE FUNCTION tideline.check_new_stateful() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_position WHERE pipeline = NEW.pipeline) THEN
        RAISE EXCEPTION 'pipeline % has a state: a % would load records that are folded already', NEW.pipeline, NEW.kind
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER nothing_is_folded_twice BEFORE INSERT ON tideline.batch
    FOR EACH ROW WHEN (NEW.kind NOT IN ('live', 'backfill')) EXECUTE FUNCTION tideline.check_new_stateful();

-- A stateful batch is published with the state of all its records, and superseded only by a rewind.
CREATE FUNCTION tideline.check_folded() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.stateful <> OLD.stateful THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'published' AND OLD.state <> 'published' AND EXISTS (
        SELECT FROM tideline.batch_range r
        WHERE r.batch_id = NEW.batch_id AND NOT EXISTS (
            SELECT FROM tideline.state_position p JOIN tideline.state_position_undo u USING (stream_id, batch_id)
            WHERE p.stream_id = r.stream_id AND p.batch_id = NEW.batch_id AND p.next_offset = upper(r.offsets))) THEN
        RAISE EXCEPTION 'batch %: it is published with the state of all its records, or not at all', NEW.batch_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'superseded' AND OLD.state <> 'superseded' AND NOT EXISTS (
        SELECT FROM tideline.state_batch WHERE batch_id = NEW.batch_id AND undo = 'applied') THEN
        RAISE EXCEPTION 'batch %: it is folded into the state, which was not rewound', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_moves_with_its_state BEFORE UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.stateful OR OLD.stateful) EXECUTE FUNCTION tideline.check_folded();

-- What was rewound is planned and loaded again.
CREATE FUNCTION tideline.release_rewound() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id AND reserves;
    RETURN NULL;
END $$;
CREATE TRIGGER rewound_offsets_are_free AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.stateful AND NEW.state = 'superseded' AND OLD.state <> 'superseded') EXECUTE FUNCTION tideline.release_rewound();

-- Numbered one by one, as they are folded: undo goes by these numbers.
CREATE FUNCTION tideline.check_state_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.undo <> 'kept' OR NOT EXISTS (
            SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND pipeline = NEW.pipeline AND stateful AND state = 'writing') THEN
            RAISE EXCEPTION 'batch %: only a stateful batch that is being written is folded', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM tideline.state_batch WHERE pipeline = NEW.pipeline) THEN
            RAISE EXCEPTION 'batch %: the batches of a state are numbered one by one', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSIF OLD.undo <> 'kept' OR NEW.undo = 'kept' OR to_jsonb(NEW) - 'undo' <> to_jsonb(OLD) - 'undo' THEN
        RAISE EXCEPTION 'batch %: its undo is pruned or applied once, and nothing else changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_is_folded_once BEFORE INSERT OR UPDATE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.check_state_batch();
CREATE TRIGGER folded_batch_is_never_deleted BEFORE DELETE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Asked at the commit: what is folded is published with it.
CREATE FUNCTION tideline.check_folded_is_published() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is folded is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fold_is_published AFTER INSERT ON tideline.state_batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION tideline.check_folded_is_published();

-- Undo is pruned from the oldest batch on, and applied from the newest one back: applied in another order, a key would keep a state that never was.
CREATE FUNCTION tideline.check_undo_order() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM became b JOIN tideline.state_batch k ON k.pipeline = b.pipeline AND k.undo = 'kept' AND k.seq < b.seq WHERE b.undo = 'pruned') THEN
        RAISE EXCEPTION 'undo is pruned from the oldest batch on' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (
        SELECT FROM became b JOIN tideline.state_batch k ON k.pipeline = b.pipeline AND k.undo = 'kept' AND k.seq > b.seq WHERE b.undo = 'applied') THEN
        RAISE EXCEPTION 'undo is applied from the newest batch back' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (
        SELECT FROM became b WHERE b.undo = 'applied' AND NOT EXISTS (
            SELECT FROM tideline.rewind r WHERE r.pipeline = b.pipeline AND r.at = now() AND r.decided_in = pg_current_xact_id())) THEN
        RAISE EXCEPTION 'undo is applied by a rewind' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM became b JOIN tideline.state_position p USING (batch_id) WHERE b.undo = 'applied')
       OR EXISTS (
        SELECT FROM became b JOIN tideline.state_undo u USING (batch_id) LEFT JOIN tideline.state s ON s.pipeline = b.pipeline AND s.key = u.key
        WHERE b.undo = 'applied' AND (s.stream_id, s.value, s.expires_at, s.kafka_offset, s.batch_id)
              IS DISTINCT FROM (u.stream_id, u.value, u.expires_at, u.kafka_offset, u.of_batch)) THEN
        RAISE EXCEPTION 'undo is applied to every key and every position of its batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER undo_keeps_its_order AFTER UPDATE ON tideline.state_batch
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo_order();

-- State: its positions -------------------------------------------------------------------------------------------------------------------------------

-- A position moves over exactly the range that its batch loads. Only holes may lie before the range, and none that a rewind has left: those are
-- loaded again first. It goes back to where it was before its batch, in a rewind.
CREATE FUNCTION tideline.check_position() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    since bigint;
    piece int8range;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.stream_id, NEW.pipeline, NEW.version) IS DISTINCT FROM (OLD.stream_id, OLD.pipeline, OLD.version + 1) THEN
        RAISE EXCEPTION 'state of stream %: every change of its position has a version of its own', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.next_offset < OLD.next_offset THEN
        IF OLD.batch_id IS DISTINCT FROM tideline.undoing(OLD.pipeline) OR NOT EXISTS (
            SELECT FROM tideline.state_position_undo u
            WHERE u.batch_id = OLD.batch_id AND u.stream_id = OLD.stream_id
              AND (u.next_offset, u.max_time, u.of_batch) IS NOT DISTINCT FROM (NEW.next_offset, NEW.max_time, NEW.batch_id)) THEN
            RAISE EXCEPTION 'state of stream %: only a rewind goes back, and from batch to batch', OLD.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    SELECT offsets INTO piece FROM tideline.batch_range WHERE batch_id = tideline.folding(NEW.pipeline) AND stream_id = NEW.stream_id;
    IF piece IS NULL OR NEW.batch_id <> tideline.folding(NEW.pipeline) OR NEW.next_offset <> upper(piece) OR TG_OP = 'INSERT' AND NEW.version <> 1 THEN
        RAISE EXCEPTION 'state of stream %: its position moves only to the end of a range that is being published', NEW.stream_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        since := OLD.next_offset;
        IF OLD.max_time > NEW.max_time OR OLD.max_time IS NOT NULL AND NEW.max_time IS NULL THEN
            RAISE EXCEPTION 'state of stream %: its largest event time never goes back', NEW.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSE
        SELECT start_offset INTO since FROM tideline.stream WHERE stream_id = NEW.stream_id;
    END IF;
    IF since > lower(piece) OR since < lower(piece) AND NOT coalesce(int8range(since, lower(piece)) <@ (
        SELECT range_agg(c.offsets::int8range) FROM tideline.covering(NEW.stream_id, int8range(since, lower(piece))) c
        WHERE c.batch_id IS NULL AND c.hole <> 'rewound'), false) THEN
        RAISE EXCEPTION 'state of stream %: it is folded up to %, the range begins at %', NEW.stream_id, since, lower(piece)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER position_moves_with_its_batch BEFORE INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.check_position();

-- Where a rewind goes back to.
CREATE FUNCTION tideline.keep_position() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.state_position_undo (batch_id, stream_id, next_offset)
        SELECT NEW.batch_id, NEW.stream_id, start_offset FROM tideline.stream WHERE stream_id = NEW.stream_id;
    ELSIF NEW.next_offset > OLD.next_offset THEN
        INSERT INTO tideline.state_position_undo (batch_id, stream_id, next_offset, max_time, of_batch)
        VALUES (NEW.batch_id, NEW.stream_id, OLD.next_offset, OLD.max_time, OLD.batch_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER position_keeps_its_undo AFTER INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.keep_position();
CREATE TRIGGER position_is_never_deleted BEFORE DELETE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- State: its rows and their undo ---------------------------------------------------------------------------------------------------------------------

-- States change only in the transaction that publishes the batch that changes them, and the database itself keeps how they were before. In a rewind
-- they become what the undo of the newest batch says. One pipeline for each statement, so that nothing is asked row by row.
CREATE FUNCTION tideline.keep_state() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first_name text;
    last_name text;
    folded bigint;
    undone bigint;
BEGIN
    IF TG_OP = 'DELETE' THEN
        SELECT min(pipeline), max(pipeline) INTO first_name, last_name FROM was;
    ELSE
        SELECT min(pipeline), max(pipeline) INTO first_name, last_name FROM became;
    END IF;
    IF first_name IS NULL THEN
        RETURN NULL;
    END IF;
    folded := tideline.folding(first_name);
    undone := tideline.undoing(first_name);
    IF first_name <> last_name OR num_nulls(folded, undone) <> 1 THEN
        RAISE EXCEPTION '% of tideline.state is refused: a state changes with the batch that is published', TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    IF undone IS NOT NULL AND TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM was LEFT JOIN tideline.state_undo u ON u.batch_id = undone AND u.key = was.key WHERE u.existed IS DISTINCT FROM false) THEN
            RAISE EXCEPTION 'DELETE of tideline.state is refused: a rewind goes back from batch to batch' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    ELSIF undone IS NOT NULL THEN
        IF EXISTS (
            SELECT FROM became b LEFT JOIN tideline.state_undo u ON u.batch_id = undone AND u.key = b.key
            WHERE (b.stream_id, b.value, b.expires_at, b.kafka_offset, b.batch_id)
                  IS DISTINCT FROM (u.stream_id, u.value, u.expires_at, u.kafka_offset, u.of_batch)) THEN
            RAISE EXCEPTION '% of tideline.state is refused: a rewind goes back from batch to batch', TG_OP USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF EXISTS (SELECT FROM became WHERE batch_id <> folded) OR EXISTS (
            SELECT stream_id FROM became EXCEPT SELECT stream_id FROM tideline.stream WHERE pipeline = first_name) THEN
            RAISE EXCEPTION '% of tideline.state is refused: a state names its batch, and a stream of its pipeline', TG_OP
                USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.state_undo (batch_id, key, existed) SELECT folded, key, false FROM became ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO tideline.state_undo (batch_id, key, existed, stream_id, value, expires_at, kafka_offset, of_batch)
        SELECT folded, key, true, stream_id, value, expires_at, kafka_offset, batch_id FROM was ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER state_comes_with_its_undo AFTER INSERT ON tideline.state
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_changes_with_its_undo AFTER UPDATE ON tideline.state
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_goes_with_its_undo AFTER DELETE ON tideline.state
    REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_keeps_its_key BEFORE UPDATE OF pipeline, key ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER state_is_never_truncated BEFORE TRUNCATE ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Undo is written by the triggers of what it undoes, and by no client. It goes when it is pruned or applied.
CREATE FUNCTION tideline.check_undo() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' AND pg_trigger_depth() > 1 THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of tideline.% is refused: undo is written with what it undoes', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER undo_is_written_with_its_state BEFORE INSERT OR UPDATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();
CREATE TRIGGER undo_is_written_with_its_position BEFORE INSERT OR UPDATE ON tideline.state_position_undo
    FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();
CREATE FUNCTION tideline.check_gone_undo() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id FROM gone) AS g JOIN tideline.state_batch USING (batch_id) WHERE undo = 'kept') THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may still be rewound', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER undo_stays_while_it_is_kept AFTER DELETE ON tideline.state_undo
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();
CREATE TRIGGER undo_of_positions_stays_while_it_is_kept AFTER DELETE ON tideline.state_position_undo
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();
CREATE TRIGGER undo_is_never_truncated BEFORE TRUNCATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER undo_of_positions_is_never_truncated BEFORE TRUNCATE ON tideline.state_position_undo
    FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- State: what a rewind does to the rest of the ledger ------------------------------------------------------------------------------------------------

-- What is folded is loaded: its coverage goes only when its batch is rewound.
CREATE FUNCTION tideline.check_rewound_coverage() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_batch WHERE batch_id = OLD.batch_id AND undo <> 'applied') THEN
        RAISE EXCEPTION 'offsets % of stream % are folded into the state by batch %', OLD.offsets, OLD.stream_id, OLD.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER folded_offsets_stay_loaded AFTER UPDATE OR DELETE ON tideline.coverage
    FOR EACH ROW WHEN (OLD.batch_id IS NOT NULL) EXECUTE FUNCTION tideline.check_rewound_coverage();

-- Offsets of such a hole are loaded again before anything after them. So only a rewind leaves one.
CREATE FUNCTION tideline.check_rewound_hole() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.decided_in = pg_current_xact_id() AND NOT EXISTS (
        SELECT FROM tideline.stream s JOIN tideline.rewind r USING (pipeline)
        WHERE s.stream_id = NEW.stream_id AND r.at = now() AND r.decided_in = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'offsets % of stream % are not rewound', NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER only_a_rewind_leaves_its_holes BEFORE INSERT OR UPDATE ON tideline.coverage
    FOR EACH ROW WHEN (NEW.hole::text = 'rewound') EXECUTE FUNCTION tideline.check_rewound_hole();

-- Roles ----------------------------------------------------------------------------------------------------------------------------------------------

-- Each process may do its own work and no more. The Postgres roles of this ledger, as `tideline migrate --roles` has made them. None where one user
-- does everything.
CREATE TABLE tideline.role (
    duty text PRIMARY KEY CHECK (duty IN ('owner', 'operator', 'writer', 'stager', 'reader')),
    name text NOT NULL UNIQUE
);

-- The isolation level of what writes -----------------------------------------------------------------------------------------------------------------

-- The laws compare with rows that others have committed, often after a wait for a lock. At REPEATABLE READ a trigger looks with the snapshot of
-- before the wait: it would accept a hole over offsets that a batch has reserved meanwhile, or a publication over the mark of a newer tombstone.
-- SERIALIZABLE would end in errors that a retry meets again, in sessions that take turns by locks already. So both are refused, in every session: the
-- product sets the level itself, and a database or a role may have another one for psql.
CREATE FUNCTION tideline.check_isolation() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION '% of tideline.% is refused at the isolation level %: the laws of the ledger have to see what others have committed',
            TG_OP, TG_TABLE_NAME, current_setting('transaction_isolation')
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'at_read_committed_only',
                  HINT = 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = ''read committed'' before.';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.attempt EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.batch_range EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.claimed_output EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.coverage EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.event EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.gone_hole EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.gone_reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.intent EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.letters EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.outbox EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.pipeline EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.redrive EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.rewind EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.role EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.run_batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_count EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_redrive EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_columns EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_position EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_position_undo EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_undo EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.stream EXECUTE FUNCTION tideline.check_isolation();

-- Views ----------------------------------------------------------------------------------------------------------------------------------------------

-- For those who ask the ledger in SQL. Their columns stay, where tables and functions may change with each release. A view shows what the user who
-- asks may see in the tables, and changes nothing.

CREATE VIEW tideline.run_offsets WITH (security_invoker) AS
SELECT given.pipeline, given.dag_id, given.run_id, position, batch_id, kind::text, batch.state::text, batch.run_id AS planned_by,
       stream_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.run_batch AS given
JOIN tideline.batch USING (batch_id) JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id);
COMMENT ON VIEW tideline.run_offsets IS
    'the offset ranges that a DAG run was given, with the counts of published batches. Name pipeline, dag_id and run_id';

CREATE VIEW tideline.run_completeness WITH (security_invoker) AS
SELECT pipeline, dag_id, run_id, stream_id, topic, topic_id, partition, start_offset, end_offset,
       int8multirange(int8range(start_offset, end_offset)) - coalesce(loaded, '{}') AS not_loaded
FROM (
    SELECT of_run.*, topic, topic_id, partition, least(start_offset, first_offset) AS start_offset
    FROM (
        SELECT given.pipeline, dag_id, run_id, stream_id, min(lower(offsets)) AS first_offset, max(upper(offsets)) AS end_offset
        FROM tideline.run_batch AS given JOIN tideline.batch_range USING (batch_id)
        GROUP BY given.pipeline, dag_id, run_id, stream_id
    ) AS of_run JOIN tideline.stream USING (stream_id)
) AS read_by_the_run
CROSS JOIN LATERAL (
    SELECT range_agg(offsets::int8range) FILTER (WHERE batch_id IS NOT NULL) AS loaded
    FROM tideline.covering(stream_id, int8range(start_offset, end_offset))
) AS covered;
COMMENT ON VIEW tideline.run_completeness IS
    'for each partition of which a DAG run was given offsets: from the beginning of the stream, or from a first offset before it, to the last one, '
    'and what of it is not loaded. Name pipeline, dag_id and run_id';

CREATE VIEW tideline.missing_offsets WITH (security_invoker) AS
SELECT pipeline, stream_id, topic, topic_id, partition, lower(piece) AS start_offset, upper(piece) AS end_offset
FROM tideline.stream
CROSS JOIN LATERAL (
    SELECT range_agg(offsets::int8range) AS accounted FROM tideline.coverage WHERE coverage.stream_id = stream.stream_id
) AS covered
CROSS JOIN unnest(int8multirange(int8range(start_offset, next_offset)) - coalesce(accounted, '{}')) AS piece;
COMMENT ON VIEW tideline.missing_offsets IS
    'offsets before a head that no batch and no hole accounts for: always none. Reads all coverage of the pipelines that are asked for';

CREATE VIEW tideline.holes WITH (security_invoker) AS
SELECT pipeline, stream_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       hole::text, reason, decided_by, recorded_at
FROM tideline.stream JOIN tideline.coverage USING (stream_id)
WHERE hole IS NOT NULL;
COMMENT ON VIEW tideline.holes IS 'offsets that were left out by a decision, each with its kind, the reason and who decided';

-- Rights ---------------------------------------------------------------------------------------------------------------------------------------------

-- A role that may execute a trigger's function may also put it on a table of its own, and so write with the rights of the owner. No role executes
-- what acts as the owner, but for what it is granted.
REVOKE EXECUTE ON FUNCTION
    tideline.carry_reason(), tideline.check_alone(), tideline.check_attempt(), tideline.check_batch(), tideline.check_cleared(),
    tideline.check_coverage(), tideline.check_event(), tideline.check_event_id(), tideline.check_folded(), tideline.check_folded_is_published(),
    tideline.check_free_output(), tideline.check_gone_rejects(), tideline.check_gone_undo(), tideline.check_intent(), tideline.check_isolation(),
    tideline.check_kept_rejects(), tideline.check_letters(), tideline.check_loaded_rejects(), tideline.check_moved_output(),
    tideline.check_new_batch(), tideline.check_new_rejects(), tideline.check_new_stateful(), tideline.check_old_hole(), tideline.check_outbox(),
    tideline.check_position(), tideline.check_prune(), tideline.check_range(), tideline.check_retirement(), tideline.check_rewound_coverage(),
    tideline.check_rewound_hole(), tideline.check_settled(), tideline.check_slice(), tideline.check_staged(), tideline.check_state_batch(),
    tideline.check_still_covered(), tideline.check_stream(), tideline.check_undo(), tideline.check_undo_order(), tideline.drop_staging(text),
    tideline.fill_outbox(), tideline.forget_gone_hole(), tideline.keep_gone_hole(), tideline.keep_position(), tideline.keep_state(),
    tideline.note_return(), tideline.owe_letters(), tideline.prune_events(text, integer), tideline.record_batch(), tideline.record_hole(),
    tideline.record_intent(), tideline.record_output(), tideline.record_retirement(), tideline.record_rewind(), tideline.record_stream(),
    tideline.refuse(), tideline.release_rewound(), tideline.staging_id(uuid)
    FROM PUBLIC;
