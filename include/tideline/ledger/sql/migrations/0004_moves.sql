-- What people do to a pipeline: backfill, replay, re-drive, skip, accept a loss, adopt a topic. The laws of 0002 stay; this adds those that the
-- new moves must keep, and lets through what they need.

ALTER TYPE tideline.batch_kind ADD VALUE 'redrive';

ALTER TABLE tideline.batch ADD COLUMN reason text CHECK (reason <> '');
COMMENT ON COLUMN tideline.batch.reason IS 'why somebody asked for it; null for what a schedule planned';

-- Set when a person accepts that the log was cut: until the log has passed what was planned or read again its end may lie this low.
ALTER TABLE tideline.stream ADD COLUMN accepted_end bigint CHECK (accepted_end >= 0);

ALTER TABLE tideline.staged_count ADD COLUMN n_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE tideline.batch_range ADD COLUMN n_bytes bigint CHECK (n_bytes >= 0);
COMMENT ON COLUMN tideline.batch_range.n_bytes IS 'keys and values of the records read; what limits.batch_bytes goes by';

-- Which rejects a re-drive takes: as explicit as the ranges of other batches, so that a retry takes the same.
CREATE TABLE tideline.redrive (
    batch_id bigint NOT NULL,
    stream_id bigint NOT NULL,
    kafka_offset bigint NOT NULL,
    PRIMARY KEY (batch_id, stream_id, kafka_offset),
    FOREIGN KEY (batch_id, stream_id) REFERENCES tideline.batch_range (batch_id, stream_id)
);
CREATE TRIGGER redrive_stays_as_planned BEFORE UPDATE OR DELETE ON tideline.redrive FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

CREATE INDEX coverage_batch ON tideline.coverage (batch_id);
CREATE INDEX reject_batch ON tideline.reject (batch_id);
CREATE INDEX batch_pipeline ON tideline.batch (pipeline, batch_id);
CREATE INDEX event_pipeline ON tideline.event (pipeline, event_id);

-- Coverage of a stream that overlaps a range, by the index of the exclusion constraint: a comparison of plain ids would read the whole table.
CREATE FUNCTION tideline.covering(stream bigint, wanted int8range) RETURNS SETOF tideline.coverage LANGUAGE sql STABLE AS $$
    SELECT * FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

-- The same for reserved ranges.
CREATE FUNCTION tideline.reserving(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range LANGUAGE sql STABLE AS $$
    SELECT * FROM tideline.batch_range
    WHERE reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;

-- Events: who decided what, and why. The reason is set once, for the transaction, and stands in every event that it causes; an event that has its own
-- keeps it.
CREATE FUNCTION tideline.carry_reason() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(current_setting('tideline.reason', true), '') <> '' THEN
        NEW.detail := jsonb_build_object('reason', current_setting('tideline.reason')) || NEW.detail;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_carries_the_reason BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.carry_reason();

-- Old events may go, if somebody says in the same transaction up to when; never those of a batch that is open, and no event ever changes.
CREATE FUNCTION tideline.check_prune() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;
DROP TRIGGER event_is_append_only ON tideline.event;
CREATE TRIGGER event_is_append_only BEFORE UPDATE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER event_is_only_pruned BEFORE DELETE ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_prune();

-- Batches: as in 0002, and the reason never changes either. The head of a stream that has retired is history and in nobody's way, and a batch that
-- reserves nothing has nothing to give back.
CREATE OR REPLACE FUNCTION tideline.check_batch() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION tideline.record_batch() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Ranges: live ones begin at or behind the head, over offsets that nobody accounts for; backfills never take what a batch has loaded, and replays
-- take nothing else: what they publish of other offsets would lie in the way of every plan. Counts of a
-- published batch change in one way only: rejects that were re-driven become written or filtered.
CREATE OR REPLACE FUNCTION tideline.check_range() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Streams: a retired one is history.
CREATE OR REPLACE FUNCTION tideline.check_stream() RETURNS trigger LANGUAGE plpgsql AS $$
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
    IF OLD.state = 'retired' THEN
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

-- Coverage: a hole is decided over offsets that nobody is loading, and never grows. What is left of one that a backfill has filled in part is a new row
-- that keeps the date, and with it the decision.
CREATE OR REPLACE FUNCTION tideline.check_coverage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.batch_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.batch_range r USING (batch_id)
        WHERE batch_id = NEW.batch_id AND r.stream_id = NEW.stream_id AND r.offsets @> NEW.offsets AND state IN ('published', 'advanced', 'superseded')) THEN
        RAISE EXCEPTION 'batch % has not published % of stream %', NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.hole IS NOT NULL AND (TG_OP = 'UPDATE' OR NEW.recorded_at >= now()) AND EXISTS (SELECT FROM tideline.reserving(NEW.stream_id, NEW.offsets)) THEN
        RAISE EXCEPTION 'offsets % of stream % are reserved by a batch: no hole', NEW.offsets, NEW.stream_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION tideline.record_hole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, stream_id, detail)
    SELECT CASE NEW.hole WHEN 'skipped' THEN 'skip' ELSE 'accept loss' END, pipeline, stream_id,
           jsonb_build_object('from', lower(NEW.offsets), 'to', upper(NEW.offsets), 'reason', NEW.reason, 'decided_by', NEW.decided_by)
    FROM tideline.stream WHERE stream_id = NEW.stream_id;
    RETURN NULL;
END $$;
CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW
    WHEN (NEW.hole IS NOT NULL AND NEW.recorded_at >= now()) EXECUTE FUNCTION tideline.record_hole();

-- Offsets that are accounted for stay so: their owner may change within a transaction, but at its end each has one.
CREATE FUNCTION tideline.check_still_covered() RETURNS trigger LANGUAGE plpgsql AS $$
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
