-- A hole is new in the transaction that decides it, whatever the clock says: one that had stepped back took old holes for new ones, and refused what a
-- backfill had left of them; one that had run ahead did the opposite.

ALTER TABLE tideline.coverage ADD COLUMN decided_in xid8 NOT NULL DEFAULT pg_current_xact_id();
COMMENT ON COLUMN tideline.coverage.decided_in IS 'the transaction that decided on a hole; what is left of one that is filled in part keeps it';

-- Coverage: as in 0004, but for how it knows a new hole. Compared for equality only: in a database that was restored from a dump, transactions are
-- numbered from the start again.
CREATE OR REPLACE FUNCTION tideline.check_coverage() RETURNS trigger LANGUAGE plpgsql AS $$
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

DROP TRIGGER hole_writes_its_history ON tideline.coverage;
CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW
    WHEN (NEW.hole IS NOT NULL AND NEW.decided_in = pg_current_xact_id()) EXECUTE FUNCTION tideline.record_hole();
