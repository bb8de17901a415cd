-- The laws that need more than one row to check. Every refusal says what was tried; every change of state writes its own event.

CREATE FUNCTION tideline.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of tideline.% is refused: its rows are history', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER event_is_append_only BEFORE UPDATE OR DELETE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON tideline.event EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER batch_is_never_deleted BEFORE DELETE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER range_is_never_deleted BEFORE DELETE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER stream_is_never_deleted BEFORE DELETE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Batches: the state machine. `writing -> writing` is a takeover: a newer attempt, one fence higher.
CREATE FUNCTION tideline.check_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.batch_id, NEW.pipeline, NEW.kind, NEW.dag_id, NEW.run_id, NEW.seq, NEW.planned_at) IS DISTINCT FROM
       (OLD.batch_id, OLD.pipeline, OLD.kind, OLD.dag_id, OLD.run_id, OLD.seq, OLD.planned_at)
       OR NEW.supersedes IS DISTINCT FROM OLD.supersedes THEN
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
        WHERE batch_id = NEW.batch_id AND next_offset < upper(offsets)) THEN
        RAISE EXCEPTION 'batch %: not every head has passed it', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.record_batch() RETURNS trigger LANGUAGE plpgsql AS $$
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
        UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_new_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'planned' THEN
        RAISE EXCEPTION 'a batch begins as planned, not as %', NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER batch_begins_planned BEFORE INSERT ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_new_batch();
CREATE TRIGGER batch_keeps_its_states BEFORE UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.check_batch();
CREATE TRIGGER batch_writes_its_history AFTER INSERT OR UPDATE ON tideline.batch FOR EACH ROW EXECUTE FUNCTION tideline.record_batch();

-- Ranges never change once planned; counts change only while an attempt writes. Nor does a range join a batch that has begun.
CREATE FUNCTION tideline.check_range() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner tideline.batch;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF TG_OP = 'INSERT' THEN
        IF owner.state <> 'planned' OR NEW.n_read IS NOT NULL OR NEW.reserves <> (owner.kind <> 'replay')
           OR owner.pipeline <> (SELECT pipeline FROM tideline.stream WHERE stream_id = NEW.stream_id) THEN
            RAISE EXCEPTION 'batch %: a range belongs to a planned batch of its stream''s pipeline', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.batch_id, NEW.stream_id, NEW.offsets, NEW.gaps_allowed, NEW.planned_log_start, NEW.planned_end) IS DISTINCT FROM
       (OLD.batch_id, OLD.stream_id, OLD.offsets, OLD.gaps_allowed, OLD.planned_log_start, OLD.planned_end)
       OR (NEW.reserves <> OLD.reserves AND owner.state <> 'abandoned') THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.reserves = OLD.reserves AND owner.state <> 'writing' THEN
        RAISE EXCEPTION 'batch % is %: its counts never change', OLD.batch_id, owner.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER range_stays_as_planned BEFORE INSERT OR UPDATE ON tideline.batch_range FOR EACH ROW EXECUTE FUNCTION tideline.check_range();

-- Coverage names batches that are published, and nothing beside their ranges.
CREATE FUNCTION tideline.check_coverage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.batch_range r USING (batch_id)
        WHERE batch_id = NEW.batch_id AND r.stream_id = NEW.stream_id AND r.offsets @> NEW.offsets AND state IN ('published', 'advanced', 'superseded')) THEN
        RAISE EXCEPTION 'batch % has not published % of stream %', NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER coverage_is_published BEFORE INSERT OR UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.check_coverage();

-- Heads: only forward, and only over offsets that coverage accounts for, so that coverage always tiles [start_offset, next_offset).
CREATE FUNCTION tideline.check_stream() RETURNS trigger LANGUAGE plpgsql AS $$
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
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'stream %: the head never goes back (from % to %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.next_offset > OLD.next_offset AND NOT coalesce(
        int8range(OLD.next_offset, NEW.next_offset) <@ (
            SELECT range_agg(offsets::int8range) FROM tideline.coverage
            WHERE stream_id = NEW.stream_id AND offsets && int8range(OLD.next_offset, NEW.next_offset)), false) THEN
        RAISE EXCEPTION 'stream %: the head cannot pass unpublished offsets of [%, %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.record_stream() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER head_only_moves_over_coverage BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.check_stream();
CREATE TRIGGER stream_writes_its_history AFTER INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.record_stream();
