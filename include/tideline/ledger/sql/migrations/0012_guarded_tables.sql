-- Rejects and attempts keep their laws at a psql prompt as well, and young events stay.

-- Rejects: they come, change and go only while an attempt is publishing that has to do with them. A reject that went by hand would leave its record
-- neither in the output nor in the rejects. Asked once for each statement: there may be half a million of them.
CREATE FUNCTION tideline.check_new_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id, attempt_id FROM came) AS c WHERE NOT EXISTS (
        SELECT FROM tideline.batch JOIN tideline.attempt USING (attempt)
        WHERE batch.batch_id = c.batch_id AND batch.state = 'writing' AND attempt.attempt_id = c.attempt_id)) THEN
        RAISE EXCEPTION 'INSERT into tideline.reject is refused: rejects come with the attempt that holds their batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION tideline.check_kept_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE FUNCTION tideline.check_gone_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER reject_comes_with_its_attempt AFTER INSERT ON tideline.reject
    REFERENCING NEW TABLE AS came FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_new_rejects();
CREATE TRIGGER reject_is_kept_as_it_came AFTER UPDATE ON tideline.reject
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_kept_rejects();
CREATE TRIGGER reject_goes_when_it_is_loaded AFTER DELETE ON tideline.reject
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_rejects();
CREATE TRIGGER reject_is_never_truncated BEFORE TRUNCATE ON tideline.reject FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Attempts: who wrote what under which fence is history; only its heart goes on beating, also once after its end.
CREATE FUNCTION tideline.check_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Events: as in 0004, but none of the last day goes, whatever moment is named. A declaration keeps them for a day at least (upkeep.events_days).
CREATE OR REPLACE FUNCTION tideline.check_prune() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND OLD.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;
