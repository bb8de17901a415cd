-- Each published batch is announced once as an asset event, and an attempt that hangs can be told from one that works.

-- What has been published, and whether those who wait for it have been told. Written by the publishing transaction itself, so that no published
-- batch is missing here, whichever code published it.
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

-- Batches that are through were announced by the tasks of before. Of those that are not, Airflow is asked which events it has.
INSERT INTO tideline.outbox (batch_id, pipeline) SELECT batch_id, pipeline FROM tideline.batch WHERE state = 'published';

CREATE FUNCTION tideline.fill_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (NEW.batch_id, NEW.pipeline);
    RETURN NULL;
END $$;
CREATE TRIGGER publication_enters_the_outbox AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.state = 'published' AND OLD.state <> 'published') EXECUTE FUNCTION tideline.fill_outbox();

CREATE FUNCTION tideline.check_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
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
