-- Outside sinks: their rows are committed where the ledger's transaction does not reach. An attempt stores what it is about to commit (its intent),
-- commits it, and publishes it in the ledger (settles it). A later attempt can settle for one that died in between: everything is here.

ALTER TABLE tideline.batch
    ADD COLUMN outside boolean NOT NULL DEFAULT false,
    ADD COLUMN written_by bigint,
    ADD COLUMN sealed_fence integer NOT NULL DEFAULT 0,
    ADD CONSTRAINT only_outside_is_sealed_and_settled CHECK (outside OR written_by IS NULL AND sealed_fence = 0),
    ADD CONSTRAINT outside_names_its_writer CHECK (
        NOT outside OR CASE WHEN state IN ('published', 'advanced', 'superseded') THEN written_by IS NOT NULL
                            ELSE written_by IS NULL OR state = 'writing' END);
COMMENT ON COLUMN tideline.batch.outside IS 'whether its rows are committed outside of this database';
COMMENT ON COLUMN tideline.batch.written_by IS 'attempt_id of the attempt that has committed its rows outside';
COMMENT ON COLUMN tideline.batch.sealed_fence IS 'no attempt below it has committed or can ever commit outside: the sink was asked';

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
    UNIQUE (batch_id, attempt_id),
    CONSTRAINT streams_and_offsets_pair CHECK (cardinality(redriven_streams) = cardinality(redriven_offsets))
);
COMMENT ON TABLE tideline.intent IS 'what an attempt has declared before its commit to an outside sink, and all that is needed to publish it later';
COMMENT ON COLUMN tideline.intent.written IS 'how many offsets are written: [{"stream_id": .., "n_written": ..}]';
COMMENT ON COLUMN tideline.intent.facts IS 'what the broker has reported after the read, by stream id: {"..": {"log_start": .., "end": ..}}';

ALTER TABLE tideline.batch
    ADD CONSTRAINT written_as_intended FOREIGN KEY (batch_id, written_by) REFERENCES tideline.intent (batch_id, attempt_id);

-- Replays and re-drives reserve nothing, and inside the database they take turns when they publish. Outside, nothing may come between a commit and
-- its settlement: only one that is open may have an offset.
ALTER TABLE tideline.batch_range
    ADD COLUMN alone boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT alone_or_reserved CHECK (NOT (alone AND reserves)),
    ADD CONSTRAINT one_open_replay EXCLUDE USING gist
        (int8range(stream_id, stream_id, '[]') WITH &&, (offsets::int8range) WITH &&) WHERE (alone);
COMMENT ON COLUMN tideline.batch_range.alone IS 'of an open replay or re-drive of an outside sink: no other one may take these offsets before it ends';

CREATE FUNCTION tideline.check_intent() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE FUNCTION tideline.record_intent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, attempt, detail)
    SELECT 'intend', pipeline, NEW.batch_id, attempt.attempt, jsonb_build_object('n_rows', NEW.n_rows, 'output', NEW.output)
    FROM tideline.batch JOIN tideline.attempt ON attempt.attempt_id = NEW.attempt_id WHERE batch.batch_id = NEW.batch_id;
    RETURN NULL;
END $$;
CREATE TRIGGER intent_writes_its_history AFTER INSERT ON tideline.intent FOR EACH ROW EXECUTE FUNCTION tideline.record_intent();

-- What was staged by an attempt with an intent is what a later attempt settles: a task of it that runs late must change nothing. The lock makes such
-- a task wait for the intent that is being stored, and the intent for the task.
CREATE FUNCTION tideline.check_staged() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tideline.attempt WHERE attempt_id IN (SELECT attempt_id FROM came) FOR KEY SHARE;
    IF EXISTS (SELECT FROM tideline.intent WHERE attempt_id IN (SELECT attempt_id FROM came)) THEN
        RAISE EXCEPTION 'tideline.% is refused: the attempt intends to commit what it has staged', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION tideline.check_cleared() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM tideline.intent JOIN tideline.batch USING (batch_id)
        WHERE state IN ('planned', 'writing', 'failed') AND attempt_id IN (SELECT attempt_id FROM gone)) THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may be committed outside, and is not settled', TG_TABLE_NAME
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_came_before_the_intent AFTER INSERT ON tideline.staged_count
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER count_stays_as_intended AFTER UPDATE ON tideline.staged_count
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER count_stays_until_settled AFTER DELETE ON tideline.staged_count
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();
CREATE TRIGGER reject_came_before_the_intent AFTER INSERT ON tideline.staged_reject
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER reject_stays_until_settled AFTER DELETE ON tideline.staged_reject
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();
CREATE TRIGGER redrive_came_before_the_intent AFTER INSERT ON tideline.staged_redrive
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_staged();
CREATE TRIGGER redrive_stays_until_settled AFTER DELETE ON tideline.staged_redrive
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_cleared();

-- A batch, as in 0004. Two changes leave state, fence and attempt as they are: a seal, and a settlement, which the publication follows in the
-- same transaction. What may be committed outside is never abandoned.
CREATE OR REPLACE FUNCTION tideline.check_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.batch_id, NEW.pipeline, NEW.kind, NEW.dag_id, NEW.run_id, NEW.seq, NEW.planned_at) IS DISTINCT FROM
       (OLD.batch_id, OLD.pipeline, OLD.kind, OLD.dag_id, OLD.run_id, OLD.seq, OLD.planned_at)
       OR (NEW.supersedes, NEW.reason, NEW.outside) IS DISTINCT FROM (OLD.supersedes, OLD.reason, OLD.outside) THEN
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

CREATE FUNCTION tideline.check_settled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is settled is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER settlement_is_published AFTER UPDATE ON tideline.batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.written_by IS NOT NULL AND OLD.written_by IS NULL) EXECUTE FUNCTION tideline.check_settled();

CREATE OR REPLACE FUNCTION tideline.record_batch() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- A range, as in 0004; it is alone exactly as long as its batch is open.
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
    IF NEW.alone <> OLD.alone AND to_jsonb(NEW) - 'alone' = to_jsonb(OLD) - 'alone' THEN
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

CREATE FUNCTION tideline.check_alone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner tideline.batch;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF NEW.alone <> (owner.outside AND owner.kind IN ('replay', 'redrive') AND owner.state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'batch %: a range of an open replay or re-drive of an outside sink is alone, and no other', NEW.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER range_is_alone_while_open BEFORE INSERT OR UPDATE OF alone ON tideline.batch_range
    FOR EACH ROW EXECUTE FUNCTION tideline.check_alone();

-- Rejects, as in 0012: those of an outside batch come with the attempt whose intent is settled, and with no other.
CREATE OR REPLACE FUNCTION tideline.check_new_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id, attempt_id FROM came) AS c WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = c.batch_id AND batch.state = 'writing'
          AND c.attempt_id = CASE WHEN outside THEN written_by ELSE attempt.attempt_id END)) THEN
        RAISE EXCEPTION 'INSERT into tideline.reject is refused: rejects come with the attempt that holds their batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION tideline.check_kept_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
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
