-- Made of the migrations by `python -m tideline.local.schema_snapshot`; for reading, never run.

CREATE SCHEMA tideline;

CREATE SCHEMA tideline_staging;

CREATE TYPE tideline.attempt_outcome AS ENUM (
    'published',
    'failed',
    'superseded'
);

CREATE TYPE tideline.batch_kind AS ENUM (
    'live',
    'backfill',
    'replay',
    'redrive'
);

CREATE TYPE tideline.batch_state AS ENUM (
    'planned',
    'writing',
    'failed',
    'published',
    'advanced',
    'abandoned',
    'superseded'
);

CREATE TYPE tideline.hole AS ENUM (
    'skipped',
    'lost'
);

CREATE TYPE tideline.names AS RANGE (
    subtype = text,
    multirange_type_name = tideline.names_multirange,
    collation = pg_catalog."C"
);

CREATE DOMAIN tideline.offsets AS int8range
	CONSTRAINT offsets_check CHECK (((NOT isempty(VALUE)) AND (NOT lower_inf(VALUE)) AND (NOT upper_inf(VALUE)) AND (lower(VALUE) >= 0)));

CREATE TYPE tideline.stream_state AS ENUM (
    'active',
    'stopped',
    'retired'
);

CREATE FUNCTION tideline.carry_reason() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') <> '' THEN
        NEW.detail := jsonb_build_object('reason', current_setting('tideline.reason')) || NEW.detail;
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_attempt() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION tideline.check_batch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (NEW.batch_id, NEW.pipeline, NEW.kind, NEW.dag_id, NEW.run_id, NEW.seq, NEW.planned_at) IS DISTINCT FROM
       (OLD.batch_id, OLD.pipeline, OLD.kind, OLD.dag_id, OLD.run_id, OLD.seq, OLD.planned_at)
       OR (NEW.supersedes, NEW.reason) IS DISTINCT FROM (OLD.supersedes, OLD.reason) THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
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
    IF NEW.state = 'advanced' AND NEW.kind = 'live' AND EXISTS (
        SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
        WHERE batch_id = NEW.batch_id AND next_offset < upper(offsets) AND stream.state <> 'retired') THEN
        RAISE EXCEPTION 'batch %: not every head has passed it', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_coverage() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION tideline.check_free_table() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'table % of pipeline % is not free: batches of it are open', OLD.table_name, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION tideline.check_gone_rejects() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (
        WITH writing AS MATERIALIZED (SELECT batch_id, kind FROM tideline.batch WHERE state = 'writing')
        SELECT FROM gone AS g
        WHERE NOT EXISTS (
            SELECT FROM writing JOIN tideline.redrive r USING (batch_id)
            WHERE kind = 'redrive' AND r.stream_id = g.stream_id AND r.kafka_offset = g.kafka_offset)
          AND NOT EXISTS (
            SELECT FROM writing JOIN tideline.batch_range r USING (batch_id)
            WHERE kind = 'replay' AND r.stream_id = g.stream_id AND r.offsets @> g.kafka_offset)) THEN
        RAISE EXCEPTION 'DELETE of tideline.reject is refused: a reject goes with the re-drive or the replay that loads its record'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_kept_rejects() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM became AS n JOIN was AS o USING (stream_id, kafka_offset)
        WHERE (n.batch_id, n.kafka_timestamp_ms, n.key, n.value, n.headers) IS DISTINCT FROM (o.batch_id, o.kafka_timestamp_ms, o.key, o.value, o.headers))
       OR (SELECT count(*) FROM became JOIN was USING (stream_id, kafka_offset)) <> (SELECT count(*) FROM was) THEN
        RAISE EXCEPTION 'UPDATE of tideline.reject is refused: a record is kept as it came' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM became AS n WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt) JOIN tideline.redrive ON redrive.batch_id = batch.batch_id
        WHERE batch.state = 'writing' AND attempt.attempt_id = n.attempt_id AND redrive.stream_id = n.stream_id AND redrive.kafka_offset = n.kafka_offset)) THEN
        RAISE EXCEPTION 'UPDATE of tideline.reject is refused: a reject changes with the re-drive that has tried it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_new_batch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.state <> 'planned' THEN
        RAISE EXCEPTION 'a batch begins as planned, not as %', NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_new_rejects() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id, attempt_id FROM came) AS c WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = c.batch_id AND batch.state = 'writing' AND attempt.attempt_id = c.attempt_id)) THEN
        RAISE EXCEPTION 'INSERT into tideline.reject is refused: rejects come with the attempt that holds their batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_outbox() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION tideline.check_prune() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND OLD.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION tideline.check_range() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
    IF (NEW.batch_id, NEW.stream_id, NEW.offsets, NEW.gaps_allowed, NEW.planned_log_start, NEW.planned_end) IS DISTINCT FROM
       (OLD.batch_id, OLD.stream_id, OLD.offsets, OLD.gaps_allowed, OLD.planned_log_start, OLD.planned_end)
       OR (NEW.reserves <> OLD.reserves AND owner.state <> 'abandoned') THEN
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

CREATE FUNCTION tideline.check_slice() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'attempt %: rejects of stream % from % on were read twice, and were others the second time',
            OLD.attempt_id, OLD.stream_id, OLD.start_offset USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_still_covered() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT coalesce(OLD.offsets::int8range <@ (
        SELECT range_agg(offsets::int8range) FROM tideline.covering(OLD.stream_id, OLD.offsets)), false) THEN
        RAISE EXCEPTION 'offsets of % of stream % would no longer be accounted for', OLD.offsets, OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_stream() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE TABLE tideline.coverage (
    coverage_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    offsets tideline.offsets NOT NULL,
    batch_id bigint,
    hole tideline.hole,
    reason text,
    decided_by text,
    recorded_at timestamp with time zone DEFAULT now() NOT NULL,
    decided_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT batch_or_hole CHECK (((batch_id IS NULL) = (hole IS NOT NULL))),
    CONSTRAINT coverage_decided_by_check CHECK ((decided_by <> ''::text)),
    CONSTRAINT coverage_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT holes_have_a_name CHECK (((hole IS NULL) OR ((reason IS NOT NULL) AND (decided_by IS NOT NULL))))
);

COMMENT ON COLUMN tideline.coverage.decided_in IS 'the transaction that decided on a hole; what is left of one that is filled in part keeps it';

CREATE FUNCTION tideline.covering(stream bigint, wanted int8range) RETURNS SETOF tideline.coverage
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE FUNCTION tideline.fill_outbox() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (NEW.batch_id, NEW.pipeline);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_batch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.event (action, pipeline, batch_id, to_state)
        VALUES ('plan', NEW.pipeline, NEW.batch_id, NEW.state);
        RETURN NULL;
    END IF;
    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)
    VALUES (CASE NEW.state WHEN 'writing' THEN 'claim' WHEN 'failed' THEN 'fail' WHEN 'published' THEN 'publish' WHEN 'advanced' THEN 'advance'
                           WHEN 'abandoned' THEN 'abandon' ELSE 'supersede' END,
            NEW.pipeline, NEW.batch_id, NEW.attempt, OLD.state, NEW.state);
    IF NEW.state = 'abandoned' THEN
        UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id AND reserves;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_hole() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, stream_id, detail)
    SELECT CASE NEW.hole WHEN 'skipped' THEN 'skip' ELSE 'accept loss' END, pipeline, stream_id,
           jsonb_build_object('from', lower(NEW.offsets), 'to', upper(NEW.offsets), 'reason', NEW.reason, 'decided_by', NEW.decided_by)
    FROM tideline.stream WHERE stream_id = NEW.stream_id;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_stream() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION tideline.record_table() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tideline.event (action, pipeline, detail) VALUES ('free table', OLD.pipeline, jsonb_build_object('table', OLD.table_name));
    ELSE
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('claim table', NEW.pipeline, jsonb_build_object('table', NEW.table_name, 'shared', NEW.shared));
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '% of tideline.% is refused: its rows are history', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE TABLE tideline.batch_range (
    batch_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    offsets tideline.offsets NOT NULL,
    gaps_allowed boolean NOT NULL,
    reserves boolean DEFAULT true NOT NULL,
    planned_log_start bigint NOT NULL,
    planned_end bigint NOT NULL,
    n_read bigint,
    n_written bigint,
    n_rejected bigint,
    n_filtered bigint,
    n_gap bigint,
    first_read bigint,
    last_read bigint,
    published_log_start bigint,
    published_end bigint,
    n_bytes bigint,
    CONSTRAINT batch_range_n_bytes_check CHECK ((n_bytes >= 0)),
    CONSTRAINT batch_range_n_filtered_check CHECK ((n_filtered >= 0)),
    CONSTRAINT batch_range_n_gap_check CHECK ((n_gap >= 0)),
    CONSTRAINT batch_range_n_read_check CHECK ((n_read >= 0)),
    CONSTRAINT batch_range_n_rejected_check CHECK ((n_rejected >= 0)),
    CONSTRAINT batch_range_n_written_check CHECK ((n_written >= 0)),
    CONSTRAINT counts_add_up CHECK ((n_read = ((n_written + n_rejected) + n_filtered))),
    CONSTRAINT counts_together CHECK ((num_nulls(n_read, n_written, n_rejected, n_filtered, n_gap, published_log_start, published_end) = ANY (ARRAY[0, 7]))),
    CONSTRAINT end_not_behind CHECK ((published_end >= upper((offsets)::int8range))),
    CONSTRAINT gaps_are_allowed CHECK (((n_gap = 0) OR gaps_allowed)),
    CONSTRAINT offsets_add_up CHECK (((n_read + n_gap) = (upper((offsets)::int8range) - lower((offsets)::int8range)))),
    CONSTRAINT planned_within_log CHECK (((planned_log_start <= lower((offsets)::int8range)) AND (planned_end >= upper((offsets)::int8range)))),
    CONSTRAINT read_within_range CHECK (((first_read >= lower((offsets)::int8range)) AND (last_read < upper((offsets)::int8range)) AND (first_read <= last_read))),
    CONSTRAINT retention_not_ahead CHECK (((published_log_start <= lower((offsets)::int8range)) OR (n_gap = 0)))
);

COMMENT ON COLUMN tideline.batch_range.n_bytes IS 'keys and values of the records read; what limits.batch_bytes goes by';

CREATE FUNCTION tideline.replaying(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM tideline.batch_range
    WHERE NOT reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE FUNCTION tideline.reserving(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM tideline.batch_range
    WHERE reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE TABLE tideline.attempt (
    attempt_id bigint NOT NULL,
    attempt uuid DEFAULT gen_random_uuid() NOT NULL,
    batch_id bigint NOT NULL,
    fence integer NOT NULL,
    started_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    heartbeat_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    ended_at timestamp with time zone,
    outcome tideline.attempt_outcome,
    problem text,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    task_id text NOT NULL,
    try_number integer NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    n_read bigint DEFAULT 0 NOT NULL,
    progressed_at timestamp with time zone,
    CONSTRAINT attempt_check CHECK (((ended_at IS NULL) = (outcome IS NULL))),
    CONSTRAINT attempt_fence_check CHECK ((fence > 0)),
    CONSTRAINT attempt_n_read_check CHECK ((n_read >= 0))
);

COMMENT ON COLUMN tideline.attempt.n_read IS 'records read by the Spark tasks that had ended at its last heartbeat';

COMMENT ON COLUMN tideline.attempt.progressed_at IS 'when a heartbeat last found more of them than the one before';

ALTER TABLE tideline.attempt ALTER COLUMN attempt_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.attempt_attempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.batch (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    kind tideline.batch_kind NOT NULL,
    state tideline.batch_state DEFAULT 'planned'::tideline.batch_state NOT NULL,
    fence integer DEFAULT 0 NOT NULL,
    attempt uuid,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    seq integer NOT NULL,
    supersedes bigint,
    planned_at timestamp with time zone DEFAULT now() NOT NULL,
    reason text,
    CONSTRAINT batch_check CHECK (((attempt IS NULL) = (fence = 0))),
    CONSTRAINT batch_check1 CHECK (((attempt IS NOT NULL) OR (state = ANY (ARRAY['planned'::tideline.batch_state, 'abandoned'::tideline.batch_state])))),
    CONSTRAINT batch_fence_check CHECK ((fence >= 0)),
    CONSTRAINT batch_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT batch_seq_check CHECK ((seq >= 0))
);

COMMENT ON COLUMN tideline.batch.reason IS 'why somebody asked for it; null for what a schedule planned';

ALTER TABLE tideline.batch ALTER COLUMN batch_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.batch_batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE tideline.coverage ALTER COLUMN coverage_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.coverage_coverage_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.event (
    event_id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    actor text DEFAULT COALESCE(NULLIF(current_setting('tideline.actor'::text, true), ''::text), (SESSION_USER)::text) NOT NULL,
    action text NOT NULL,
    pipeline text NOT NULL,
    batch_id bigint,
    stream_id bigint,
    attempt uuid,
    from_state text,
    to_state text,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE tideline.event ALTER COLUMN event_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.event_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE tideline.outbox (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    n_tries integer DEFAULT 0 NOT NULL,
    dag_id text,
    run_id text,
    task_id text,
    announced_at timestamp with time zone,
    CONSTRAINT a_try_names_its_task CHECK ((num_nulls(dag_id, run_id, task_id) =
CASE n_tries
    WHEN 0 THEN 3
    ELSE 0
END)),
    CONSTRAINT outbox_n_tries_check CHECK ((n_tries >= 0))
);

COMMENT ON COLUMN tideline.outbox.n_tries IS 'how many tasks have taken it to announce it; the last one is named';

COMMENT ON COLUMN tideline.outbox.announced_at IS 'when its event was seen in Airflow';

CREATE TABLE tideline.output_table (
    pipeline text NOT NULL,
    table_name text NOT NULL,
    shared boolean NOT NULL,
    claimed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT output_table_table_name_check CHECK ((table_name ~ '^[^.]+\.[^.]+$'::text))
);

CREATE TABLE tideline.pipeline (
    pipeline text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT pipeline_pipeline_check CHECK ((pipeline ~ '^[a-z][a-z0-9_]{0,62}$'::text))
);

CREATE TABLE tideline.redrive (
    batch_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    kafka_offset bigint NOT NULL
);

CREATE TABLE tideline.reject (
    stream_id bigint NOT NULL,
    kafka_offset bigint NOT NULL,
    batch_id bigint NOT NULL,
    step text NOT NULL,
    reason text NOT NULL,
    kafka_timestamp_ms bigint,
    key bytea,
    value bytea,
    headers bytea,
    rejected_at timestamp with time zone DEFAULT now() NOT NULL,
    attempt_id bigint NOT NULL
);

COMMENT ON COLUMN tideline.reject.headers IS 'UTF-8 JSON, [{"key": ..., "value": <base64>}, ...]; bytes, because the name of a header may hold what text cannot';

COMMENT ON COLUMN tideline.reject.attempt_id IS 'the attempt that has rejected the record last: the version of the reject';

CREATE TABLE tideline.run_batch (
    pipeline text NOT NULL,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    "position" integer NOT NULL,
    batch_id bigint NOT NULL,
    CONSTRAINT run_batch_position_check CHECK (("position" >= 0))
);

CREATE TABLE tideline.staged_count (
    attempt_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    first_read bigint NOT NULL,
    last_read bigint NOT NULL,
    n_read bigint NOT NULL,
    n_filtered bigint NOT NULL,
    n_bytes bigint DEFAULT 0 NOT NULL,
    CONSTRAINT staged_count_check CHECK ((last_read >= first_read))
);

CREATE TABLE tideline.staged_redrive (
    attempt_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    start_offset bigint NOT NULL,
    offsets bigint[] NOT NULL,
    rejected_by bigint[] NOT NULL,
    CONSTRAINT offsets_and_attempts_pair CHECK ((cardinality(offsets) = cardinality(rejected_by)))
);

COMMENT ON COLUMN tideline.staged_redrive.rejected_by IS 'attempt_id of the reject at each of the offsets';

CREATE TABLE tideline.staged_reject (
    attempt_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    kafka_offset bigint NOT NULL,
    step text NOT NULL,
    reason text NOT NULL,
    kafka_timestamp_ms bigint,
    key bytea,
    value bytea,
    headers bytea
);

CREATE TABLE tideline.stream (
    stream_id bigint NOT NULL,
    pipeline text NOT NULL,
    cluster_id text NOT NULL,
    topic text NOT NULL,
    topic_id uuid NOT NULL,
    partition integer NOT NULL,
    start_offset bigint NOT NULL,
    next_offset bigint NOT NULL,
    state tideline.stream_state DEFAULT 'active'::tideline.stream_state NOT NULL,
    stopped_because text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    accepted_end bigint,
    leader_epoch integer,
    CONSTRAINT stream_accepted_end_check CHECK ((accepted_end >= 0)),
    CONSTRAINT stream_check CHECK ((next_offset >= start_offset)),
    CONSTRAINT stream_check1 CHECK (((state = 'stopped'::tideline.stream_state) = (stopped_because IS NOT NULL))),
    CONSTRAINT stream_leader_epoch_check CHECK ((leader_epoch >= 0)),
    CONSTRAINT stream_partition_check CHECK ((partition >= 0)),
    CONSTRAINT stream_start_offset_check CHECK ((start_offset >= 0))
);

COMMENT ON COLUMN tideline.stream.leader_epoch IS 'of the leader at the last look, when the log held all that was planned of it';

ALTER TABLE tideline.stream ALTER COLUMN stream_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.stream_stream_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY tideline.attempt
    ADD CONSTRAINT attempt_attempt_key UNIQUE (attempt);

ALTER TABLE ONLY tideline.attempt
    ADD CONSTRAINT attempt_batch_id_fence_key UNIQUE (batch_id, fence);

ALTER TABLE ONLY tideline.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (attempt_id);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_pipeline_dag_id_run_id_seq_key UNIQUE (pipeline, dag_id, run_id, seq);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT batch_range_pkey PRIMARY KEY (batch_id, stream_id);

ALTER TABLE ONLY tideline.staged_count
    ADD CONSTRAINT counted_once EXCLUDE USING gist (int8range(attempt_id, attempt_id, '[]'::text) WITH &&, int8range(stream_id, stream_id, '[]'::text) WITH &&, int8range(first_read, last_read, '[]'::text) WITH &&);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT coverage_pkey PRIMARY KEY (coverage_id);

ALTER TABLE ONLY tideline.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY tideline.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT one_owner_in_output EXCLUDE USING gist (int8range(stream_id, stream_id, '[]'::text) WITH &&, ((offsets)::int8range) WITH &&);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT one_owner_per_offset EXCLUDE USING gist (int8range(stream_id, stream_id, '[]'::text) WITH &&, ((offsets)::int8range) WITH &&) WHERE (reserves);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.output_table
    ADD CONSTRAINT output_table_pkey PRIMARY KEY (pipeline);

ALTER TABLE ONLY tideline.pipeline
    ADD CONSTRAINT pipeline_pkey PRIMARY KEY (pipeline);

ALTER TABLE ONLY tideline.redrive
    ADD CONSTRAINT redrive_pkey PRIMARY KEY (batch_id, stream_id, kafka_offset);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_pkey PRIMARY KEY (stream_id, kafka_offset);

ALTER TABLE ONLY tideline.run_batch
    ADD CONSTRAINT run_batch_pipeline_dag_id_run_id_batch_id_key UNIQUE (pipeline, dag_id, run_id, batch_id);

ALTER TABLE ONLY tideline.run_batch
    ADD CONSTRAINT run_batch_pkey PRIMARY KEY (pipeline, dag_id, run_id, "position");

ALTER TABLE ONLY tideline.staged_count
    ADD CONSTRAINT staged_count_pkey PRIMARY KEY (attempt_id, stream_id, first_read);

ALTER TABLE ONLY tideline.staged_redrive
    ADD CONSTRAINT staged_redrive_pkey PRIMARY KEY (attempt_id, stream_id, start_offset);

ALTER TABLE ONLY tideline.staged_reject
    ADD CONSTRAINT staged_reject_pkey PRIMARY KEY (attempt_id, stream_id, kafka_offset);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pipeline_cluster_id_topic_id_partition_key UNIQUE (pipeline, cluster_id, topic_id, partition);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream_id);

ALTER TABLE ONLY tideline.output_table
    ADD CONSTRAINT tables_are_shared_by_consent EXCLUDE USING gist (tideline.names(table_name, table_name, '[]'::text) WITH &&, (
CASE
    WHEN shared THEN tideline.names(pipeline, pipeline, '[]'::text)
    ELSE tideline.names(NULL::text, NULL::text)
END) WITH &&);

CREATE INDEX batch_given_up ON tideline.batch USING btree (pipeline, state, batch_id) WHERE (state = ANY (ARRAY['abandoned'::tideline.batch_state, 'superseded'::tideline.batch_state]));

CREATE INDEX batch_of_kind ON tideline.batch USING btree (pipeline, kind, batch_id) WHERE (kind <> 'live'::tideline.batch_kind);

CREATE INDEX batch_open ON tideline.batch USING btree (pipeline, batch_id) WHERE (state = ANY (ARRAY['planned'::tideline.batch_state, 'writing'::tideline.batch_state, 'failed'::tideline.batch_state, 'published'::tideline.batch_state]));

CREATE INDEX batch_pipeline ON tideline.batch USING btree (pipeline, batch_id);

CREATE INDEX batch_range_replaying ON tideline.batch_range USING gist (int8range(stream_id, stream_id, '[]'::text), ((offsets)::int8range)) WHERE (NOT reserves);

CREATE INDEX coverage_batch ON tideline.coverage USING btree (batch_id);

CREATE INDEX coverage_hole ON tideline.coverage USING btree (stream_id) WHERE (hole IS NOT NULL);

CREATE INDEX coverage_stream ON tideline.coverage USING btree (stream_id);

CREATE INDEX event_batch ON tideline.event USING btree (batch_id, event_id);

CREATE INDEX event_time ON tideline.event USING btree (pipeline, at);

CREATE INDEX outbox_waiting ON tideline.outbox USING btree (pipeline, batch_id) WHERE (announced_at IS NULL);

CREATE INDEX reject_batch ON tideline.reject USING btree (batch_id);

CREATE TRIGGER attempt_is_never_deleted BEFORE DELETE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER attempt_is_never_truncated BEFORE TRUNCATE ON tideline.attempt FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER attempt_keeps_its_end BEFORE UPDATE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.check_attempt();

CREATE TRIGGER batch_begins_planned BEFORE INSERT ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_new_batch();

CREATE TRIGGER batch_is_never_deleted BEFORE DELETE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER batch_keeps_its_states BEFORE UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_batch();

CREATE TRIGGER batch_writes_its_history AFTER INSERT OR UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.record_batch();

CREATE TRIGGER coverage_is_never_truncated BEFORE TRUNCATE ON tideline.coverage FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER coverage_is_published BEFORE INSERT OR UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.check_coverage();

CREATE CONSTRAINT TRIGGER coverage_never_shrinks AFTER DELETE OR UPDATE ON tideline.coverage DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_still_covered();

CREATE TRIGGER event_carries_the_reason BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.carry_reason();

CREATE TRIGGER event_is_append_only BEFORE UPDATE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON tideline.event FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER event_is_only_pruned BEFORE DELETE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_prune();

CREATE TRIGGER head_only_moves_over_coverage BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.check_stream();

CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW WHEN (((new.hole IS NOT NULL) AND (new.decided_in = pg_current_xact_id()))) EXECUTE FUNCTION tideline.record_hole();

CREATE TRIGGER outbox_is_never_deleted BEFORE DELETE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER outbox_keeps_its_word BEFORE INSERT OR UPDATE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.check_outbox();

CREATE TRIGGER publication_enters_the_outbox AFTER UPDATE ON tideline.batch FOR EACH ROW WHEN (((new.state = 'published'::tideline.batch_state) AND (old.state <> 'published'::tideline.batch_state))) EXECUTE FUNCTION tideline.fill_outbox();

CREATE TRIGGER range_is_never_deleted BEFORE DELETE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER range_stays_as_planned BEFORE INSERT OR UPDATE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.check_range();

CREATE TRIGGER redrive_stays_as_planned BEFORE DELETE OR UPDATE ON tideline.redrive FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER reject_comes_with_its_attempt AFTER INSERT ON tideline.reject REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_new_rejects();

CREATE TRIGGER reject_goes_when_it_is_loaded AFTER DELETE ON tideline.reject REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_rejects();

CREATE TRIGGER reject_is_kept_as_it_came AFTER UPDATE ON tideline.reject REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_kept_rejects();

CREATE TRIGGER reject_is_never_truncated BEFORE TRUNCATE ON tideline.reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER slice_is_read_once BEFORE UPDATE ON tideline.staged_redrive FOR EACH ROW EXECUTE FUNCTION tideline.check_slice();

CREATE TRIGGER stream_is_never_deleted BEFORE DELETE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER stream_writes_its_history AFTER INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.record_stream();

CREATE TRIGGER table_is_freed_when_idle BEFORE DELETE ON tideline.output_table FOR EACH ROW EXECUTE FUNCTION tideline.check_free_table();

CREATE TRIGGER table_writes_its_history AFTER INSERT OR DELETE OR UPDATE ON tideline.output_table FOR EACH ROW EXECUTE FUNCTION tideline.record_table();

ALTER TABLE ONLY tideline.attempt
    ADD CONSTRAINT attempt_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_attempt_fkey FOREIGN KEY (attempt) REFERENCES tideline.attempt(attempt);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT batch_range_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT batch_range_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_supersedes_fkey FOREIGN KEY (supersedes) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT coverage_batch_id_stream_id_fkey FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range(batch_id, stream_id);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT coverage_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.event
    ADD CONSTRAINT event_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.event
    ADD CONSTRAINT event_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.event
    ADD CONSTRAINT event_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.output_table
    ADD CONSTRAINT output_table_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.redrive
    ADD CONSTRAINT redrive_batch_id_stream_id_fkey FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range(batch_id, stream_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.run_batch
    ADD CONSTRAINT run_batch_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.run_batch
    ADD CONSTRAINT run_batch_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.staged_count
    ADD CONSTRAINT staged_count_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id) ON DELETE CASCADE;

ALTER TABLE ONLY tideline.staged_count
    ADD CONSTRAINT staged_count_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.staged_redrive
    ADD CONSTRAINT staged_redrive_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id) ON DELETE CASCADE;

ALTER TABLE ONLY tideline.staged_redrive
    ADD CONSTRAINT staged_redrive_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.staged_reject
    ADD CONSTRAINT staged_reject_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id) ON DELETE CASCADE;

ALTER TABLE ONLY tideline.staged_reject
    ADD CONSTRAINT staged_reject_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);
