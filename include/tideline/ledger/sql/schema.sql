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
    'lost',
    'rewound'
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
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') <> '' THEN
        NEW.detail := jsonb_build_object('reason', current_setting('tideline.reason')) || NEW.detail;
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_alone() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_attempt() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_cleared() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tideline.intent JOIN tideline.batch USING (batch_id)
        WHERE state IN ('planned', 'writing', 'failed') AND attempt_id IN (SELECT attempt_id FROM gone)) THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may be committed outside, and is not settled', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_coverage() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION tideline.check_event() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_event_id() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW.event_id <> currval('tideline.event_event_id_seq') THEN
        RAISE EXCEPTION 'INSERT into tideline.event is refused: event_id % was chosen by the statement', NEW.event_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_folded() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_folded_is_published() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is folded is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_free_output() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'output % of pipeline % is not free: batches of it are open', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;

CREATE FUNCTION tideline.check_gone_rejects() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_gone_undo() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id FROM gone) AS g JOIN tideline.state_batch USING (batch_id) WHERE undo = 'kept') THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may still be rewound', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_intent() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM tideline.batch WHERE batch_id = NEW.batch_id FOR NO KEY UPDATE;
    IF NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = NEW.batch_id AND outside AND state = 'writing' AND attempt.attempt_id = NEW.attempt_id AND attempt.fence >= sealed_fence) THEN
        RAISE EXCEPTION 'batch %: only the attempt that holds an outside batch intends to commit it', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_isolation() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION '% of tideline.% is refused at the isolation level %: the laws of the ledger have to see what others have committed',
            TG_OP, TG_TABLE_NAME, current_setting('transaction_isolation')
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'at_read_committed_only',
                  HINT = 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = ''read committed'' before.';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_kept_rejects() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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
        WHERE batch.state = 'writing' AND n.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END
          AND redrive.stream_id = n.stream_id AND redrive.kafka_offset = n.kafka_offset)) THEN
        RAISE EXCEPTION 'UPDATE of tideline.reject is refused: a reject changes with the re-drive that has tried it' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_letters() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_loaded_rejects() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tideline.batch WHERE batch_id = ANY (NEW.batch_ids) AND state IN ('published', 'advanced')) THEN
        RAISE EXCEPTION 'DELETE of tideline.reject is refused: no batch that loads the records is published in the same transaction, of %', NEW.batch_ids
            USING ERRCODE = 'restrict_violation';
    END IF;
    DELETE FROM tideline.gone_reject WHERE gone_id = NEW.gone_id;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_moved_output() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_new_batch() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW.state <> 'planned' THEN
        RAISE EXCEPTION 'a batch begins as planned, not as %', NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_new_rejects() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id, attempt_id FROM came) AS c WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = c.batch_id AND batch.state = 'writing'
          AND c.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END)) THEN
        RAISE EXCEPTION 'INSERT into tideline.reject is refused: rejects come with the attempt that holds their batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_new_stateful() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_position WHERE pipeline = NEW.pipeline) THEN
        RAISE EXCEPTION 'pipeline % has a state: a % would load records that are folded already', NEW.pipeline, NEW.kind
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_old_hole() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_outbox() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION tideline.check_position() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_prune() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID)
       AND OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND OLD.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION tideline.check_range() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION tideline.check_retirement() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') = '' THEN
        RAISE EXCEPTION 'pipeline % is not retired without a reason', NEW.pipeline USING ERRCODE = 'restrict_violation';
    ELSIF EXISTS (SELECT FROM tideline.batch WHERE pipeline = NEW.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'pipeline % is not retired: batches of it are open', NEW.pipeline USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_rewound_coverage() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_batch WHERE batch_id = OLD.batch_id AND undo <> 'applied') THEN
        RAISE EXCEPTION 'offsets % of stream % are folded into the state by batch %', OLD.offsets, OLD.stream_id, OLD.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_rewound_hole() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW.decided_in = pg_current_xact_id() AND NOT EXISTS (
        SELECT FROM tideline.stream s JOIN tideline.rewind r USING (pipeline)
        WHERE s.stream_id = NEW.stream_id AND r.at = now() AND r.decided_in = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'offsets % of stream % are not rewound', NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_settled() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is settled is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_slice() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'attempt %: rejects of stream % from % on were read twice, and were others the second time',
            OLD.attempt_id, OLD.stream_id, OLD.start_offset USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.check_staged() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM tideline.attempt WHERE attempt_id IN (SELECT attempt_id FROM came) FOR KEY SHARE;
    IF EXISTS (SELECT FROM tideline.intent WHERE attempt_id IN (SELECT attempt_id FROM came)) THEN
        RAISE EXCEPTION 'tideline.% is refused: the attempt intends to commit what it has staged', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_state_batch() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.check_still_covered() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
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
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION tideline.check_undo() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    IF TG_OP = 'INSERT' AND pg_trigger_depth() > 1 THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of tideline.% is refused: undo is written with what it undoes', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION tideline.check_undo_order() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
    LANGUAGE sql STABLE ROWS 1
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT * FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE FUNCTION tideline.drop_staging(name text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
END $_$;

COMMENT ON FUNCTION tideline.drop_staging(name text) IS 'drop a table of staged rows, unless its attempt holds its batch';

CREATE FUNCTION tideline.fill_outbox() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (NEW.batch_id, NEW.pipeline);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.folding(name text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT batch_id FROM tideline.batch JOIN tideline.state_batch USING (batch_id) WHERE batch.pipeline = name AND batch.state = 'writing'
$$;

CREATE FUNCTION tideline.forget_gone_hole() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM tideline.gone_hole WHERE gone_in = NEW.gone_in AND stream_id = NEW.stream_id AND coverage_id = NEW.coverage_id;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.has_loaded(name text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM tideline.batch WHERE pipeline = name AND state IN ('writing', 'published', 'advanced', 'superseded'))
        OR tideline.may_have_committed(name)
$$;

COMMENT ON FUNCTION tideline.has_loaded(name text) IS 'whether an output holds records of a pipeline, or may soon or unknown to the ledger: its claim moves by a decision only';

CREATE FUNCTION tideline.keep_gone_hole() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.gone_hole (stream_id, coverage_id, offsets, hole, reason, decided_by, recorded_at, decided_in)
    VALUES (OLD.stream_id, OLD.coverage_id, OLD.offsets, OLD.hole, OLD.reason, OLD.decided_by, OLD.recorded_at, OLD.decided_in);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.keep_position() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.keep_state() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.may_have_committed(name text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM tideline.intent JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = intent.batch_id
                   WHERE b.pipeline = name AND b.state = 'failed' AND a.fence >= b.sealed_fence)
$$;

COMMENT ON FUNCTION tideline.may_have_committed(name text) IS 'whether an attempt at a failed batch of a pipeline may have committed it outside';

CREATE FUNCTION tideline.note_return() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.owe_letters() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.letters (batch_id, pipeline)
    SELECT NEW.batch_id, NEW.pipeline WHERE EXISTS (SELECT FROM tideline.reject WHERE batch_id = NEW.batch_id);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.prune_events(name text, keep_days integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION tideline.prune_events(name text, keep_days integer) IS 'delete the events of a pipeline that are older than some days, except those of open or published batches';

CREATE FUNCTION tideline.record_batch() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.record_hole() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, stream_id, detail)
    SELECT CASE NEW.hole WHEN 'skipped' THEN 'skip' ELSE 'accept loss' END, pipeline, stream_id,
           jsonb_build_object('from', lower(NEW.offsets), 'to', upper(NEW.offsets), 'reason', NEW.reason, 'decided_by', NEW.decided_by)
    FROM tideline.stream WHERE stream_id = NEW.stream_id;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, detail)
    SELECT 'intend', pipeline, NEW.batch_id, attempt.attempt, jsonb_build_object('n_rows', NEW.n_rows, 'output', NEW.output)
    FROM tideline.batch JOIN tideline.attempt ON attempt.attempt_id = NEW.attempt_id WHERE batch.batch_id = NEW.batch_id;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_output() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION tideline.record_retirement() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline)
    VALUES (CASE WHEN NEW.retired_at IS NULL THEN 'bring back pipeline' ELSE 'retire pipeline' END, NEW.pipeline);
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_rewind() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, detail)
    VALUES ('rewind', NEW.pipeline, NEW.to_batch, jsonb_build_object('reason', NEW.reason));
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.record_stream() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
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

CREATE FUNCTION tideline.refuse() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION '% of tideline.% is refused: its rows are history', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE FUNCTION tideline.release_rewound() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id AND reserves;
    RETURN NULL;
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
    alone boolean DEFAULT false NOT NULL,
    CONSTRAINT alone_or_reserved CHECK ((NOT (alone AND reserves))),
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

COMMENT ON COLUMN tideline.batch_range.alone IS 'of an open replay or re-drive of an outside sink: no other one may take these offsets before it ends';

CREATE FUNCTION tideline.replaying(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT * FROM tideline.batch_range
    WHERE NOT reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE FUNCTION tideline.reserving(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT * FROM tideline.batch_range
    WHERE reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

CREATE FUNCTION tideline.staging_id(number uuid) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    found bigint := (SELECT attempt_id FROM tideline.attempt WHERE attempt = number);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'staging for attempt % is refused: the ledger does not know it; was the ledger restored to an earlier moment?', number
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'attempt_is_known';
    END IF;
    RETURN found;
END $$;

COMMENT ON FUNCTION tideline.staging_id(number uuid) IS 'the id under which an attempt stages; refused if the ledger does not know the attempt';

CREATE FUNCTION tideline.undoing(name text) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT batch_id FROM tideline.state_batch
    WHERE pipeline = name AND undo = 'kept' AND EXISTS (
        SELECT FROM tideline.rewind WHERE rewind.pipeline = name AND at = now() AND decided_in = pg_current_xact_id())
    ORDER BY seq DESC LIMIT 1
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
    outside boolean DEFAULT false NOT NULL,
    written_by bigint,
    sealed_fence integer DEFAULT 0 NOT NULL,
    stateful boolean DEFAULT false NOT NULL,
    identity uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT batch_check CHECK (((attempt IS NULL) = (fence = 0))),
    CONSTRAINT batch_check1 CHECK (((attempt IS NOT NULL) OR (state = ANY (ARRAY['planned'::tideline.batch_state, 'abandoned'::tideline.batch_state])))),
    CONSTRAINT batch_fence_check CHECK ((fence >= 0)),
    CONSTRAINT batch_reason_check CHECK ((reason <> ''::text)),
    CONSTRAINT batch_seq_check CHECK ((seq >= 0)),
    CONSTRAINT only_outside_is_sealed_and_settled CHECK ((outside OR ((written_by IS NULL) AND (sealed_fence = 0)))),
    CONSTRAINT outside_names_its_writer CHECK (((NOT outside) OR
CASE
    WHEN (state = ANY (ARRAY['published'::tideline.batch_state, 'advanced'::tideline.batch_state, 'superseded'::tideline.batch_state])) THEN (written_by IS NOT NULL)
    ELSE ((written_by IS NULL) OR (state = 'writing'::tideline.batch_state))
END)),
    CONSTRAINT state_is_folded_in_order CHECK (((NOT stateful) OR ((kind = ANY (ARRAY['live'::tideline.batch_kind, 'backfill'::tideline.batch_kind])) AND (NOT outside))))
);

COMMENT ON COLUMN tideline.batch.reason IS 'why somebody asked for it; null for what a schedule planned';

COMMENT ON COLUMN tideline.batch.outside IS 'whether its rows are committed outside of this database';

COMMENT ON COLUMN tideline.batch.written_by IS 'attempt_id of the attempt that has committed its rows outside';

COMMENT ON COLUMN tideline.batch.sealed_fence IS 'no attempt below it has committed or can ever commit outside: the sink was asked';

COMMENT ON COLUMN tideline.batch.stateful IS 'whether its records are folded into the state of its pipeline';

COMMENT ON COLUMN tideline.batch.identity IS 'drawn at random when the batch is planned; every name of the batch outside of the ledger is built of it';

ALTER TABLE tideline.batch ALTER COLUMN batch_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.batch_batch_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.claimed_output (
    pipeline text CONSTRAINT output_table_pipeline_not_null NOT NULL,
    place text CONSTRAINT output_table_table_name_not_null NOT NULL,
    shared boolean CONSTRAINT output_table_shared_not_null NOT NULL,
    claimed_at timestamp with time zone DEFAULT now() CONSTRAINT output_table_claimed_at_not_null NOT NULL,
    purpose text NOT NULL,
    kind text NOT NULL,
    CONSTRAINT output_has_a_kind CHECK ((kind = ANY (ARRAY['postgres'::text, 'kafka'::text, 'delta'::text]))),
    CONSTRAINT output_has_a_purpose CHECK (((purpose = 'rows'::text) OR ((purpose = 'rejects'::text) AND (kind = 'kafka'::text) AND shared))),
    CONSTRAINT place_fits_its_kind CHECK (((place ~
CASE kind
    WHEN 'postgres'::text THEN '^[^.]+\.[^.]+$'::text
    WHEN 'kafka'::text THEN '^[^/]+/[^/]+$'::text
    ELSE '^(/|s3://)'::text
END) AND (octet_length(place) <= 1000)))
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
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    login text DEFAULT SESSION_USER
);

COMMENT ON COLUMN tideline.event.login IS 'the Postgres user whose session it was, which no session can choose; null in events before migration 0018';

ALTER TABLE tideline.event ALTER COLUMN event_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.event_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.gone_hole (
    gone_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
    stream_id bigint NOT NULL,
    coverage_id bigint NOT NULL,
    offsets int8range NOT NULL,
    hole tideline.hole NOT NULL,
    reason text NOT NULL,
    decided_by text NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    decided_in xid8 NOT NULL
);

COMMENT ON TABLE tideline.gone_hole IS 'holes that a running transaction has deleted: what is left of one may be inserted again as it was';

CREATE TABLE tideline.gone_reject (
    gone_id bigint NOT NULL,
    batch_ids bigint[] NOT NULL
);

COMMENT ON TABLE tideline.gone_reject IS 'for each statement of a running transaction that has deleted rejects, the batches one of which it has to publish';

ALTER TABLE tideline.gone_reject ALTER COLUMN gone_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.gone_reject_gone_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
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
    returned_offset bigint,
    returned_behind bigint,
    CONSTRAINT return_has_both CHECK (((returned_offset IS NULL) = (returned_behind IS NULL))),
    CONSTRAINT stream_accepted_end_check CHECK ((accepted_end >= 0)),
    CONSTRAINT stream_check CHECK ((next_offset >= start_offset)),
    CONSTRAINT stream_check1 CHECK (((state = 'stopped'::tideline.stream_state) = (stopped_because IS NOT NULL))),
    CONSTRAINT stream_leader_epoch_check CHECK ((leader_epoch >= 0)),
    CONSTRAINT stream_partition_check CHECK ((partition >= 0)),
    CONSTRAINT stream_start_offset_check CHECK ((start_offset >= 0))
);

COMMENT ON COLUMN tideline.stream.leader_epoch IS 'of the leader at the last look, when the log held all that was planned of it';

COMMENT ON COLUMN tideline.stream.returned_offset IS 'its head when it was first followed again after it had retired';

COMMENT ON COLUMN tideline.stream.returned_behind IS 'the newest stream of the ledger when it was last followed again';

CREATE VIEW tideline.holes WITH (security_invoker='true') AS
 SELECT stream.pipeline,
    stream.stream_id,
    stream.topic,
    stream.topic_id,
    stream.partition,
    lower((coverage.offsets)::int8range) AS start_offset,
    upper((coverage.offsets)::int8range) AS end_offset,
    (coverage.hole)::text AS hole,
    coverage.reason,
    coverage.decided_by,
    coverage.recorded_at
   FROM (tideline.stream
     JOIN tideline.coverage USING (stream_id))
  WHERE (coverage.hole IS NOT NULL);

COMMENT ON VIEW tideline.holes IS 'offsets that were left out by a decision, each with its kind, the reason and who decided';

CREATE TABLE tideline.intent (
    attempt_id bigint NOT NULL,
    batch_id bigint NOT NULL,
    output text NOT NULL,
    n_rows bigint NOT NULL,
    written jsonb NOT NULL,
    redriven_streams bigint[] NOT NULL,
    redriven_offsets bigint[] NOT NULL,
    facts jsonb NOT NULL,
    filtered_by_difference boolean NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    "position" jsonb,
    CONSTRAINT intent_n_rows_check CHECK ((n_rows >= 0)),
    CONSTRAINT intent_output_check CHECK ((output <> ''::text)),
    CONSTRAINT streams_and_offsets_pair CHECK ((cardinality(redriven_streams) = cardinality(redriven_offsets)))
);

COMMENT ON TABLE tideline.intent IS 'what an attempt has declared before its commit to an outside sink, and all that is needed to publish it later';

COMMENT ON COLUMN tideline.intent.written IS 'how many offsets are written: [{"stream_id": .., "n_written": ..}]';

COMMENT ON COLUMN tideline.intent.facts IS 'what the broker has reported after the read, by stream id: {"..": {"log_start": .., "end": ..}}';

COMMENT ON COLUMN tideline.intent."position" IS 'where the output ended before the commit, in the form of its sink; null where receipts are never forgotten, and of releases before';

CREATE TABLE tideline.letters (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    published_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    sent_at timestamp with time zone
);

COMMENT ON TABLE tideline.letters IS 'published batches with rejects, and whether these are in the topic of rejects';

COMMENT ON COLUMN tideline.letters.sent_at IS 'when the transaction with its rejects was found to be committed';

CREATE TABLE tideline.migration (
    number integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE VIEW tideline.missing_offsets WITH (security_invoker='true') AS
 SELECT stream.pipeline,
    stream.stream_id,
    stream.topic,
    stream.topic_id,
    stream.partition,
    lower(piece.piece) AS start_offset,
    upper(piece.piece) AS end_offset
   FROM ((tideline.stream
     CROSS JOIN LATERAL ( SELECT range_agg((coverage.offsets)::int8range) AS accounted
           FROM tideline.coverage
          WHERE (coverage.stream_id = stream.stream_id)) covered)
     CROSS JOIN LATERAL unnest((int8multirange(int8range(stream.start_offset, stream.next_offset)) - COALESCE(covered.accounted, '{}'::int8multirange))) piece(piece));

COMMENT ON VIEW tideline.missing_offsets IS 'offsets before a head that no batch and no hole accounts for: always none. Reads all coverage of the pipelines that are asked for';

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

CREATE TABLE tideline.pipeline (
    pipeline text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    retired_at timestamp with time zone,
    CONSTRAINT pipeline_pipeline_check CHECK ((pipeline ~ '^[a-z][a-z0-9_]{0,62}$'::text))
);

COMMENT ON COLUMN tideline.pipeline.retired_at IS 'since when it is left out of lists and numbers where no folder declares it; null if it is shown';

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

CREATE TABLE tideline.rewind (
    rewind_id bigint NOT NULL,
    pipeline text NOT NULL,
    to_batch bigint,
    reason text NOT NULL,
    decided_by text DEFAULT current_setting('tideline.actor'::text) NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    decided_in xid8 DEFAULT pg_current_xact_id() NOT NULL,
    CONSTRAINT rewind_reason_check CHECK ((reason <> ''::text))
);

COMMENT ON COLUMN tideline.rewind.to_batch IS 'the last batch that stays folded; null for none';

ALTER TABLE tideline.rewind ALTER COLUMN rewind_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME tideline.rewind_rewind_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE tideline.role (
    duty text NOT NULL,
    name text NOT NULL,
    CONSTRAINT role_duty_check CHECK ((duty = ANY (ARRAY['owner'::text, 'operator'::text, 'writer'::text, 'stager'::text, 'reader'::text])))
);

CREATE TABLE tideline.run_batch (
    pipeline text NOT NULL,
    dag_id text NOT NULL,
    run_id text NOT NULL,
    "position" integer NOT NULL,
    batch_id bigint NOT NULL,
    CONSTRAINT run_batch_position_check CHECK (("position" >= 0))
);

CREATE VIEW tideline.run_completeness WITH (security_invoker='true') AS
 SELECT read_by_the_run.pipeline,
    read_by_the_run.dag_id,
    read_by_the_run.run_id,
    read_by_the_run.stream_id,
    read_by_the_run.topic,
    read_by_the_run.topic_id,
    read_by_the_run.partition,
    read_by_the_run.start_offset,
    read_by_the_run.end_offset,
    (int8multirange(int8range(read_by_the_run.start_offset, read_by_the_run.end_offset)) - COALESCE(covered.loaded, '{}'::int8multirange)) AS not_loaded
   FROM (( SELECT of_run.pipeline,
            of_run.dag_id,
            of_run.run_id,
            of_run.stream_id,
            of_run.first_offset,
            of_run.end_offset,
            stream.topic,
            stream.topic_id,
            stream.partition,
            LEAST(stream.start_offset, of_run.first_offset) AS start_offset
           FROM (( SELECT given.pipeline,
                    given.dag_id,
                    given.run_id,
                    batch_range.stream_id,
                    min(lower((batch_range.offsets)::int8range)) AS first_offset,
                    max(upper((batch_range.offsets)::int8range)) AS end_offset
                   FROM (tideline.run_batch given
                     JOIN tideline.batch_range USING (batch_id))
                  GROUP BY given.pipeline, given.dag_id, given.run_id, batch_range.stream_id) of_run
             JOIN tideline.stream USING (stream_id))) read_by_the_run
     CROSS JOIN LATERAL ( SELECT range_agg((covering.offsets)::int8range) FILTER (WHERE (covering.batch_id IS NOT NULL)) AS loaded
           FROM tideline.covering(read_by_the_run.stream_id, int8range(read_by_the_run.start_offset, read_by_the_run.end_offset)) covering(coverage_id, stream_id, offsets, batch_id, hole, reason, decided_by, recorded_at, decided_in)) covered);

COMMENT ON VIEW tideline.run_completeness IS 'for each partition of which a DAG run was given offsets: from the beginning of the stream, or from a first offset before it, to the last one, and what of it is not loaded. Name pipeline, dag_id and run_id';

CREATE VIEW tideline.run_offsets WITH (security_invoker='true') AS
 SELECT given.pipeline,
    given.dag_id,
    given.run_id,
    given."position",
    given.batch_id,
    (batch.kind)::text AS kind,
    (batch.state)::text AS state,
    batch.run_id AS planned_by,
    batch_range.stream_id,
    stream.topic,
    stream.topic_id,
    stream.partition,
    lower((batch_range.offsets)::int8range) AS start_offset,
    upper((batch_range.offsets)::int8range) AS end_offset,
    batch_range.n_read,
    batch_range.n_written,
    batch_range.n_rejected,
    batch_range.n_filtered,
    batch_range.n_gap
   FROM (((tideline.run_batch given
     JOIN tideline.batch USING (batch_id))
     JOIN tideline.batch_range USING (batch_id))
     JOIN tideline.stream USING (stream_id));

COMMENT ON VIEW tideline.run_offsets IS 'the offset ranges that a DAG run was given, with the counts of published batches. Name pipeline, dag_id and run_id';

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

CREATE TABLE tideline.state (
    pipeline text NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    stream_id bigint NOT NULL,
    value jsonb NOT NULL,
    expires_at timestamp with time zone,
    kafka_offset bigint NOT NULL,
    batch_id bigint NOT NULL,
    CONSTRAINT state_key_check CHECK ((key <> ''::text)),
    CONSTRAINT state_value_check CHECK ((jsonb_typeof(value) = 'object'::text))
);

COMMENT ON COLUMN tideline.state.key IS 'the values of the key columns, as a JSON array';

COMMENT ON COLUMN tideline.state.stream_id IS 'the stream of the last record that was folded for this key';

COMMENT ON COLUMN tideline.state.kafka_offset IS 'the offset of that record';

COMMENT ON COLUMN tideline.state.batch_id IS 'the batch that has changed it last';

CREATE TABLE tideline.state_batch (
    batch_id bigint NOT NULL,
    pipeline text NOT NULL,
    seq bigint NOT NULL,
    processor text NOT NULL,
    n_keys bigint NOT NULL,
    n_expired bigint NOT NULL,
    undo text DEFAULT 'kept'::text NOT NULL,
    CONSTRAINT state_batch_n_expired_check CHECK ((n_expired >= 0)),
    CONSTRAINT state_batch_n_keys_check CHECK ((n_keys >= 0)),
    CONSTRAINT state_batch_processor_check CHECK ((processor <> ''::text)),
    CONSTRAINT state_batch_seq_check CHECK ((seq > 0)),
    CONSTRAINT state_batch_undo_check CHECK ((undo = ANY (ARRAY['kept'::text, 'pruned'::text, 'applied'::text])))
);

COMMENT ON TABLE tideline.state_batch IS 'the batches that are folded into the state of a pipeline, in order';

COMMENT ON COLUMN tideline.state_batch.processor IS 'the version of the processor that has folded it';

COMMENT ON COLUMN tideline.state_batch.undo IS 'what became of its undo: a rewind can apply it as long as it is kept';

CREATE TABLE tideline.state_columns (
    pipeline text NOT NULL,
    key_columns jsonb NOT NULL,
    columns jsonb NOT NULL,
    CONSTRAINT state_columns_columns_check CHECK ((jsonb_typeof(columns) = 'object'::text)),
    CONSTRAINT state_columns_key_columns_check CHECK ((jsonb_typeof(key_columns) = 'array'::text))
);

COMMENT ON TABLE tideline.state_columns IS 'which columns the stored states have: a changed type is refused before anything is read';

COMMENT ON COLUMN tideline.state_columns.columns IS 'by name, the type and the former names; columns that are gone stay, as old states still have them';

CREATE TABLE tideline.state_position (
    stream_id bigint NOT NULL,
    pipeline text NOT NULL,
    next_offset bigint NOT NULL,
    max_time timestamp with time zone,
    version bigint NOT NULL,
    batch_id bigint,
    CONSTRAINT state_position_next_offset_check CHECK ((next_offset >= 0)),
    CONSTRAINT state_position_version_check CHECK ((version > 0))
);

COMMENT ON TABLE tideline.state_position IS 'how far each stream is folded';

COMMENT ON COLUMN tideline.state_position.max_time IS 'the largest event time that was folded; the watermark is that less the lateness';

COMMENT ON COLUMN tideline.state_position.version IS 'counts every change, also back';

COMMENT ON COLUMN tideline.state_position.batch_id IS 'the batch that was folded last; null before the first one';

CREATE TABLE tideline.state_position_undo (
    batch_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    next_offset bigint NOT NULL,
    max_time timestamp with time zone,
    of_batch bigint
);

CREATE TABLE tideline.state_undo (
    batch_id bigint NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    existed boolean NOT NULL,
    stream_id bigint,
    value jsonb,
    expires_at timestamp with time zone,
    kafka_offset bigint,
    of_batch bigint
);

COMMENT ON TABLE tideline.state_undo IS 'the state of each key before a batch that has changed it';

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
    ADD CONSTRAINT batch_identity_key UNIQUE (identity);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_pipeline_dag_id_run_id_seq_key UNIQUE (pipeline, dag_id, run_id, seq);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT batch_range_pkey PRIMARY KEY (batch_id, stream_id);

ALTER TABLE ONLY tideline.claimed_output
    ADD CONSTRAINT claimed_output_pkey PRIMARY KEY (pipeline, purpose);

ALTER TABLE ONLY tideline.staged_count
    ADD CONSTRAINT counted_once EXCLUDE USING gist (int8range(attempt_id, attempt_id, '[]'::text) WITH &&, int8range(stream_id, stream_id, '[]'::text) WITH &&, int8range(first_read, last_read, '[]'::text) WITH &&);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT coverage_pkey PRIMARY KEY (coverage_id);

ALTER TABLE ONLY tideline.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (event_id);

ALTER TABLE ONLY tideline.gone_hole
    ADD CONSTRAINT gone_hole_pkey PRIMARY KEY (gone_in, stream_id, coverage_id);

ALTER TABLE ONLY tideline.gone_reject
    ADD CONSTRAINT gone_reject_pkey PRIMARY KEY (gone_id);

ALTER TABLE ONLY tideline.intent
    ADD CONSTRAINT intent_batch_id_attempt_id_key UNIQUE (batch_id, attempt_id);

ALTER TABLE ONLY tideline.intent
    ADD CONSTRAINT intent_pkey PRIMARY KEY (attempt_id);

ALTER TABLE ONLY tideline.letters
    ADD CONSTRAINT letters_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (number);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT one_open_replay EXCLUDE USING gist (int8range(stream_id, stream_id, '[]'::text) WITH &&, ((offsets)::int8range) WITH &&) WHERE (alone);

ALTER TABLE ONLY tideline.coverage
    ADD CONSTRAINT one_owner_in_output EXCLUDE USING gist (int8range(stream_id, stream_id, '[]'::text) WITH &&, ((offsets)::int8range) WITH &&);

ALTER TABLE ONLY tideline.batch_range
    ADD CONSTRAINT one_owner_per_offset EXCLUDE USING gist (int8range(stream_id, stream_id, '[]'::text) WITH &&, ((offsets)::int8range) WITH &&) WHERE (reserves);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.claimed_output
    ADD CONSTRAINT outputs_are_shared_by_consent EXCLUDE USING gist (tideline.names(((kind || ' '::text) || place), ((kind || ' '::text) || place), '[]'::text) WITH &&, (
CASE
    WHEN shared THEN tideline.names(((pipeline || ' '::text) || purpose), ((pipeline || ' '::text) || purpose), '[]'::text)
    ELSE tideline.names(NULL::text, NULL::text)
END) WITH &&);

ALTER TABLE ONLY tideline.pipeline
    ADD CONSTRAINT pipeline_pkey PRIMARY KEY (pipeline);

ALTER TABLE ONLY tideline.redrive
    ADD CONSTRAINT redrive_pkey PRIMARY KEY (batch_id, stream_id, kafka_offset);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_pkey PRIMARY KEY (stream_id, kafka_offset);

ALTER TABLE ONLY tideline.rewind
    ADD CONSTRAINT rewind_pkey PRIMARY KEY (rewind_id);

ALTER TABLE ONLY tideline.role
    ADD CONSTRAINT role_name_key UNIQUE (name);

ALTER TABLE ONLY tideline.role
    ADD CONSTRAINT role_pkey PRIMARY KEY (duty);

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

ALTER TABLE ONLY tideline.state_batch
    ADD CONSTRAINT state_batch_pipeline_seq_key UNIQUE (pipeline, seq);

ALTER TABLE ONLY tideline.state_batch
    ADD CONSTRAINT state_batch_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY tideline.state_columns
    ADD CONSTRAINT state_columns_pkey PRIMARY KEY (pipeline);

ALTER TABLE ONLY tideline.state
    ADD CONSTRAINT state_pkey PRIMARY KEY (pipeline, key);

ALTER TABLE ONLY tideline.state_position
    ADD CONSTRAINT state_position_pkey PRIMARY KEY (stream_id);

ALTER TABLE ONLY tideline.state_position_undo
    ADD CONSTRAINT state_position_undo_pkey PRIMARY KEY (batch_id, stream_id);

ALTER TABLE ONLY tideline.state_undo
    ADD CONSTRAINT state_undo_pkey PRIMARY KEY (batch_id, key);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pipeline_cluster_id_topic_id_partition_key UNIQUE (pipeline, cluster_id, topic_id, partition);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pkey PRIMARY KEY (stream_id);

CREATE INDEX batch_given_up ON tideline.batch USING btree (pipeline, state, batch_id) WHERE (state = ANY (ARRAY['abandoned'::tideline.batch_state, 'superseded'::tideline.batch_state]));

CREATE INDEX batch_of_kind ON tideline.batch USING btree (pipeline, kind, batch_id) WHERE (kind <> 'live'::tideline.batch_kind);

CREATE INDEX batch_open ON tideline.batch USING btree (pipeline, batch_id) WHERE (state = ANY (ARRAY['planned'::tideline.batch_state, 'writing'::tideline.batch_state, 'failed'::tideline.batch_state, 'published'::tideline.batch_state]));

CREATE INDEX batch_pipeline ON tideline.batch USING btree (pipeline, batch_id);

CREATE INDEX batch_range_replaying ON tideline.batch_range USING gist (int8range(stream_id, stream_id, '[]'::text), ((offsets)::int8range)) WHERE (NOT reserves);

CREATE INDEX coverage_batch ON tideline.coverage USING btree (batch_id);

CREATE INDEX coverage_hole ON tideline.coverage USING btree (stream_id) WHERE (hole IS NOT NULL);

CREATE INDEX coverage_stream ON tideline.coverage USING btree (stream_id);

CREATE INDEX event_batch ON tideline.event USING btree (batch_id, event_id);

CREATE INDEX event_decided ON tideline.event USING btree (pipeline, event_id) WHERE ((detail ? 'reason'::text) AND (action <> 'move head'::text));

CREATE INDEX event_time ON tideline.event USING btree (pipeline, at);

CREATE INDEX letters_owed ON tideline.letters USING btree (pipeline, batch_id) WHERE (sent_at IS NULL);

CREATE INDEX outbox_waiting ON tideline.outbox USING btree (pipeline, batch_id) WHERE (announced_at IS NULL);

CREATE INDEX reject_batch ON tideline.reject USING btree (batch_id);

CREATE INDEX rewind_pipeline ON tideline.rewind USING btree (pipeline, rewind_id);

CREATE INDEX state_batch_kept ON tideline.state_batch USING btree (pipeline, seq) WHERE (undo = 'kept'::text);

CREATE INDEX state_due ON tideline.state USING btree (stream_id, expires_at, key) WHERE (expires_at IS NOT NULL);

CREATE INDEX state_position_pipeline ON tideline.state_position USING btree (pipeline);

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.attempt FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.batch FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.batch_range FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.claimed_output FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.coverage FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.event FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.gone_hole FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.gone_reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.intent FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.letters FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.outbox FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.pipeline FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.redrive FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.rewind FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.role FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.run_batch FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.staged_count FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.staged_redrive FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.staged_reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state_batch FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state_columns FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state_position FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state_position_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR DELETE OR UPDATE ON tideline.stream FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_isolation();

CREATE TRIGGER attempt_is_never_deleted BEFORE DELETE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER attempt_is_never_truncated BEFORE TRUNCATE ON tideline.attempt FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER attempt_keeps_its_end BEFORE UPDATE ON tideline.attempt FOR EACH ROW EXECUTE FUNCTION tideline.check_attempt();

CREATE TRIGGER batch_begins_planned BEFORE INSERT ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_new_batch();

CREATE TRIGGER batch_is_folded_once BEFORE INSERT OR UPDATE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.check_state_batch();

CREATE TRIGGER batch_is_never_deleted BEFORE DELETE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER batch_keeps_its_states BEFORE UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_batch();

CREATE TRIGGER batch_moves_with_its_state BEFORE UPDATE ON tideline.batch FOR EACH ROW WHEN ((new.stateful OR old.stateful)) EXECUTE FUNCTION tideline.check_folded();

CREATE TRIGGER batch_writes_its_history AFTER INSERT OR UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.record_batch();

CREATE TRIGGER count_came_before_the_intent AFTER INSERT ON tideline.staged_count REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();

CREATE TRIGGER count_stays_as_intended AFTER UPDATE ON tideline.staged_count REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();

CREATE TRIGGER count_stays_until_settled AFTER DELETE ON tideline.staged_count REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();

CREATE TRIGGER coverage_is_never_truncated BEFORE TRUNCATE ON tideline.coverage FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER coverage_is_published BEFORE INSERT OR UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.check_coverage();

CREATE TRIGGER coverage_never_changes BEFORE UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE CONSTRAINT TRIGGER coverage_never_shrinks AFTER DELETE OR UPDATE ON tideline.coverage DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_still_covered();

CREATE TRIGGER event_carries_the_reason BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.carry_reason();

CREATE TRIGGER event_is_append_only BEFORE UPDATE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON tideline.event FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER event_is_of_its_session BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_event();

CREATE TRIGGER event_is_only_pruned BEFORE DELETE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_prune();

CREATE TRIGGER event_is_the_newest BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_event_id();

CREATE CONSTRAINT TRIGGER fold_is_published AFTER INSERT ON tideline.state_batch DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_folded_is_published();

CREATE TRIGGER folded_batch_is_never_deleted BEFORE DELETE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER folded_offsets_stay_loaded AFTER DELETE OR UPDATE ON tideline.coverage FOR EACH ROW WHEN ((old.batch_id IS NOT NULL)) EXECUTE FUNCTION tideline.check_rewound_coverage();

CREATE CONSTRAINT TRIGGER gone_hole_is_forgotten AFTER INSERT ON tideline.gone_hole DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.forget_gone_hole();

CREATE CONSTRAINT TRIGGER gone_reject_is_loaded AFTER INSERT ON tideline.gone_reject DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION tideline.check_loaded_rejects();

CREATE TRIGGER head_only_moves_over_coverage BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.check_stream();

CREATE TRIGGER hole_is_remembered AFTER DELETE ON tideline.coverage FOR EACH ROW WHEN ((old.hole IS NOT NULL)) EXECUTE FUNCTION tideline.keep_gone_hole();

CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW WHEN ((((new.hole)::text = ANY (ARRAY['skipped'::text, 'lost'::text])) AND (new.decided_in = pg_current_xact_id()))) EXECUTE FUNCTION tideline.record_hole();

CREATE TRIGGER intent_is_never_truncated BEFORE TRUNCATE ON tideline.intent FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER intent_is_of_the_holder BEFORE INSERT ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.check_intent();

CREATE TRIGGER intent_never_changes BEFORE DELETE OR UPDATE ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER intent_writes_its_history AFTER INSERT ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.record_intent();

CREATE TRIGGER letters_are_never_forgotten BEFORE DELETE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER letters_are_never_truncated BEFORE TRUNCATE ON tideline.letters FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER letters_are_sent_once BEFORE INSERT OR UPDATE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.check_letters();

CREATE TRIGGER nothing_is_folded_twice BEFORE INSERT ON tideline.batch FOR EACH ROW WHEN ((new.kind <> ALL (ARRAY['live'::tideline.batch_kind, 'backfill'::tideline.batch_kind]))) EXECUTE FUNCTION tideline.check_new_stateful();

CREATE TRIGGER old_hole_is_the_rest_of_one AFTER INSERT ON tideline.coverage FOR EACH ROW WHEN (((new.hole IS NOT NULL) AND (new.decided_in <> pg_current_xact_id()))) EXECUTE FUNCTION tideline.check_old_hole();

CREATE TRIGGER only_a_rewind_leaves_its_holes BEFORE INSERT OR UPDATE ON tideline.coverage FOR EACH ROW WHEN (((new.hole)::text = 'rewound'::text)) EXECUTE FUNCTION tideline.check_rewound_hole();

CREATE TRIGGER outbox_is_never_deleted BEFORE DELETE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER outbox_keeps_its_word BEFORE INSERT OR UPDATE ON tideline.outbox FOR EACH ROW EXECUTE FUNCTION tideline.check_outbox();

CREATE TRIGGER output_is_freed_when_idle BEFORE DELETE ON tideline.claimed_output FOR EACH ROW WHEN ((old.purpose = 'rows'::text)) EXECUTE FUNCTION tideline.check_free_output();

CREATE TRIGGER output_moves_by_decision BEFORE UPDATE ON tideline.claimed_output FOR EACH ROW WHEN (((old.purpose = 'rows'::text) AND ((((old.kind IS DISTINCT FROM new.kind) OR (old.place IS DISTINCT FROM new.place)) OR (old.purpose IS DISTINCT FROM new.purpose)) OR (old.pipeline IS DISTINCT FROM new.pipeline)))) EXECUTE FUNCTION tideline.check_moved_output();

CREATE TRIGGER output_writes_its_history AFTER INSERT OR DELETE OR UPDATE ON tideline.claimed_output FOR EACH ROW EXECUTE FUNCTION tideline.record_output();

CREATE TRIGGER pipeline_retires_when_idle BEFORE INSERT OR UPDATE ON tideline.pipeline FOR EACH ROW WHEN ((new.retired_at IS NOT NULL)) EXECUTE FUNCTION tideline.check_retirement();

CREATE TRIGGER position_is_never_deleted BEFORE DELETE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER position_keeps_its_undo AFTER INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.keep_position();

CREATE TRIGGER position_moves_with_its_batch BEFORE INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.check_position();

CREATE TRIGGER publication_enters_the_outbox AFTER UPDATE ON tideline.batch FOR EACH ROW WHEN (((new.state = 'published'::tideline.batch_state) AND (old.state <> 'published'::tideline.batch_state))) EXECUTE FUNCTION tideline.fill_outbox();

CREATE TRIGGER publication_owes_letters AFTER UPDATE ON tideline.batch FOR EACH ROW WHEN (((new.state = 'published'::tideline.batch_state) AND (old.state <> 'published'::tideline.batch_state))) EXECUTE FUNCTION tideline.owe_letters();

CREATE TRIGGER range_is_alone_while_open BEFORE INSERT OR UPDATE OF alone ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.check_alone();

CREATE TRIGGER range_is_never_deleted BEFORE DELETE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER range_stays_as_planned BEFORE INSERT OR UPDATE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.check_range();

CREATE TRIGGER redrive_came_before_the_intent AFTER INSERT ON tideline.staged_redrive REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();

CREATE TRIGGER redrive_stays_as_planned BEFORE DELETE OR UPDATE ON tideline.redrive FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER redrive_stays_until_settled AFTER DELETE ON tideline.staged_redrive REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();

CREATE TRIGGER reject_came_before_the_intent AFTER INSERT ON tideline.staged_reject REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();

CREATE TRIGGER reject_comes_with_its_attempt AFTER INSERT ON tideline.reject REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_new_rejects();

CREATE TRIGGER reject_goes_when_it_is_loaded AFTER DELETE ON tideline.reject REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_rejects();

CREATE TRIGGER reject_is_kept_as_it_came AFTER UPDATE ON tideline.reject REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_kept_rejects();

CREATE TRIGGER reject_is_never_truncated BEFORE TRUNCATE ON tideline.reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER reject_stays_until_settled AFTER DELETE ON tideline.staged_reject REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();

CREATE TRIGGER retirement_writes_its_history AFTER UPDATE ON tideline.pipeline FOR EACH ROW WHEN ((old.retired_at IS DISTINCT FROM new.retired_at)) EXECUTE FUNCTION tideline.record_retirement();

CREATE TRIGGER rewind_is_never_truncated BEFORE TRUNCATE ON tideline.rewind FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER rewind_never_changes BEFORE DELETE OR UPDATE ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER rewind_writes_its_history AFTER INSERT ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.record_rewind();

CREATE TRIGGER rewound_offsets_are_free AFTER UPDATE ON tideline.batch FOR EACH ROW WHEN ((new.stateful AND (new.state = 'superseded'::tideline.batch_state) AND (old.state <> 'superseded'::tideline.batch_state))) EXECUTE FUNCTION tideline.release_rewound();

CREATE CONSTRAINT TRIGGER settlement_is_published AFTER UPDATE ON tideline.batch DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.written_by IS NOT NULL) AND (old.written_by IS NULL))) EXECUTE FUNCTION tideline.check_settled();

CREATE TRIGGER slice_is_read_once BEFORE UPDATE ON tideline.staged_redrive FOR EACH ROW EXECUTE FUNCTION tideline.check_slice();

CREATE TRIGGER state_changes_with_its_undo AFTER UPDATE ON tideline.state REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();

CREATE TRIGGER state_comes_with_its_undo AFTER INSERT ON tideline.state REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();

CREATE TRIGGER state_goes_with_its_undo AFTER DELETE ON tideline.state REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();

CREATE TRIGGER state_is_never_truncated BEFORE TRUNCATE ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER state_keeps_its_key BEFORE UPDATE OF pipeline, key ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER stream_is_never_deleted BEFORE DELETE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER stream_remembers_its_return BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.note_return();

CREATE TRIGGER stream_writes_its_history AFTER INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.record_stream();

CREATE TRIGGER undo_is_never_truncated BEFORE TRUNCATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER undo_is_written_with_its_position BEFORE INSERT OR UPDATE ON tideline.state_position_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();

CREATE TRIGGER undo_is_written_with_its_state BEFORE INSERT OR UPDATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();

CREATE TRIGGER undo_keeps_its_order AFTER UPDATE ON tideline.state_batch REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo_order();

CREATE TRIGGER undo_of_positions_is_never_truncated BEFORE TRUNCATE ON tideline.state_position_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

CREATE TRIGGER undo_of_positions_stays_while_it_is_kept AFTER DELETE ON tideline.state_position_undo REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();

CREATE TRIGGER undo_stays_while_it_is_kept AFTER DELETE ON tideline.state_undo REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();

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

ALTER TABLE ONLY tideline.claimed_output
    ADD CONSTRAINT claimed_output_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

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

ALTER TABLE ONLY tideline.intent
    ADD CONSTRAINT intent_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id);

ALTER TABLE ONLY tideline.intent
    ADD CONSTRAINT intent_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.letters
    ADD CONSTRAINT letters_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.letters
    ADD CONSTRAINT letters_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.outbox
    ADD CONSTRAINT outbox_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.redrive
    ADD CONSTRAINT redrive_batch_id_stream_id_fkey FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range(batch_id, stream_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_attempt_id_fkey FOREIGN KEY (attempt_id) REFERENCES tideline.attempt(attempt_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.reject
    ADD CONSTRAINT reject_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.rewind
    ADD CONSTRAINT rewind_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.rewind
    ADD CONSTRAINT rewind_to_batch_fkey FOREIGN KEY (to_batch) REFERENCES tideline.batch(batch_id);

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

ALTER TABLE ONLY tideline.state_batch
    ADD CONSTRAINT state_batch_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.batch(batch_id);

ALTER TABLE ONLY tideline.state_batch
    ADD CONSTRAINT state_batch_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.state_columns
    ADD CONSTRAINT state_columns_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.state_position
    ADD CONSTRAINT state_position_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.state_batch(batch_id);

ALTER TABLE ONLY tideline.state_position
    ADD CONSTRAINT state_position_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.state_position
    ADD CONSTRAINT state_position_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.state_position_undo
    ADD CONSTRAINT state_position_undo_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES tideline.state_batch(batch_id);

ALTER TABLE ONLY tideline.state_position_undo
    ADD CONSTRAINT state_position_undo_stream_id_fkey FOREIGN KEY (stream_id) REFERENCES tideline.stream(stream_id);

ALTER TABLE ONLY tideline.stream
    ADD CONSTRAINT stream_pipeline_fkey FOREIGN KEY (pipeline) REFERENCES tideline.pipeline(pipeline);

ALTER TABLE ONLY tideline.batch
    ADD CONSTRAINT written_as_intended FOREIGN KEY (batch_id, written_by) REFERENCES tideline.intent(batch_id, attempt_id);
