-- Walls: what a role could still do with its rights, although it breaks a law: give offsets up without a trace, change a decision, delete rejects that
-- no batch loads, write history in the name of a law or of another time.

-- Deletions that are justified only together with what else their transaction does. Rows are there only while it runs; triggers of the owner write
-- them, and no role can.
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

CREATE TABLE tideline.gone_reject (
    gone_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_ids bigint[] NOT NULL
);
COMMENT ON TABLE tideline.gone_reject IS 'for each statement of a running transaction that has deleted rejects, the batches one of which it has to publish';

-- Holes ----------------------------------------------------------------------------------------------------------------------------------------------

-- A hole of another transaction is no new decision: it writes no event, and may lie over what a batch has reserved. So it has to be a piece of one that
-- this transaction has deleted.
CREATE FUNCTION tideline.keep_gone_hole() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.gone_hole (stream_id, coverage_id, offsets, hole, reason, decided_by, recorded_at, decided_in)
    VALUES (OLD.stream_id, OLD.coverage_id, OLD.offsets, OLD.hole, OLD.reason, OLD.decided_by, OLD.recorded_at, OLD.decided_in);
    RETURN NULL;
END $$;
CREATE TRIGGER hole_is_remembered AFTER DELETE ON tideline.coverage
    FOR EACH ROW WHEN (OLD.hole IS NOT NULL) EXECUTE FUNCTION tideline.keep_gone_hole();

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

-- Coverage changes hands by deletion and insertion, which are checked; a row that changed in place would show another decision, without an event.
CREATE TRIGGER coverage_never_changes BEFORE UPDATE ON tideline.coverage FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Rejects --------------------------------------------------------------------------------------------------------------------------------------------

-- As in 0016, and the batch that loads the records has to be published in the same transaction. Any one of those that are being written and load all
-- of them may be it.
CREATE OR REPLACE FUNCTION tideline.check_gone_rejects() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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

-- Events ---------------------------------------------------------------------------------------------------------------------------------------------

ALTER TABLE tideline.event ADD COLUMN login text;
ALTER TABLE tideline.event ALTER COLUMN login SET DEFAULT session_user;
COMMENT ON COLUMN tideline.event.login IS 'the Postgres user whose session it was, which no session can choose; null in events before migration 0018';

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

-- History is in the order of event_id. A role that chose one would put an event before others, or take the place of the next, which then fails. It
-- acts as the owner because no role may read the sequence.
CREATE FUNCTION tideline.check_event_id() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.event_id <> currval('tideline.event_event_id_seq') THEN
        RAISE EXCEPTION 'INSERT into tideline.event is refused: event_id % was chosen by the statement', NEW.event_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER event_is_the_newest BEFORE INSERT ON tideline.event FOR EACH ROW EXECUTE FUNCTION tideline.check_event_id();

-- As in 0017, and it leaves an event, which the next one does not delete before it is old itself.
CREATE OR REPLACE FUNCTION tideline.prune_events(name text, keep_days integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $$
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

-- Staging --------------------------------------------------------------------------------------------------------------------------------------------

-- As in 0017, and what an attempt may still commit outside stays until its batch is closed.
CREATE OR REPLACE FUNCTION tideline.drop_staging(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part text[] := regexp_match(name, '^batch_(\d{1,18})_attempt_(\d{1,9})(?:_deleted|_state)?$');
BEGIN
    IF part IS NULL THEN
        RAISE EXCEPTION '% is no name of a staging table', name USING ERRCODE = 'invalid_name';
    END IF;
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = part[1]::bigint AND state = 'writing' AND fence = part[2]::integer) THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: its attempt holds batch %', name, part[1] USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (
        SELECT FROM tideline.batch JOIN tideline.intent USING (batch_id) JOIN tideline.attempt USING (attempt_id)
        WHERE batch.batch_id = part[1]::bigint AND batch.state IN ('planned', 'writing', 'failed') AND attempt.fence = part[2]::integer) THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: batch % may be committed outside, and is not settled', name, part[1]
            USING ERRCODE = 'restrict_violation';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tideline_staging.%I', name);
END $$;

-- As in 0017: no role executes what acts as the owner, but for what it is granted.
REVOKE EXECUTE ON FUNCTION
    tideline.check_event(), tideline.check_event_id(), tideline.check_loaded_rejects(), tideline.check_old_hole(), tideline.forget_gone_hole(),
    tideline.keep_gone_hole()
    FROM PUBLIC;
