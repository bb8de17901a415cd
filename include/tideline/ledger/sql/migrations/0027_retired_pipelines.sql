-- A pipeline that was given up stays in the ledger with its history, and would be listed, counted and alerted on for ever. A decision takes it out
-- of sight. It hides nothing that a folder declares, and the next plan takes it back.
ALTER TABLE tideline.pipeline ADD COLUMN retired_at timestamptz;
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
REVOKE EXECUTE ON FUNCTION tideline.check_retirement() FROM PUBLIC;
CREATE TRIGGER pipeline_retires_when_idle BEFORE INSERT OR UPDATE ON tideline.pipeline FOR EACH ROW
    WHEN (NEW.retired_at IS NOT NULL) EXECUTE FUNCTION tideline.check_retirement();

CREATE FUNCTION tideline.record_retirement() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline)
    VALUES (CASE WHEN NEW.retired_at IS NULL THEN 'bring back pipeline' ELSE 'retire pipeline' END, NEW.pipeline);
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION tideline.record_retirement() FROM PUBLIC;
CREATE TRIGGER retirement_writes_its_history AFTER UPDATE ON tideline.pipeline FOR EACH ROW
    WHEN (OLD.retired_at IS DISTINCT FROM NEW.retired_at) EXECUTE FUNCTION tideline.record_retirement();
