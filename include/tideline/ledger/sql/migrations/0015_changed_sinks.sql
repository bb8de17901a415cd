-- A pipeline whose sink was inside the database and is outside now, or the other way round: what was planned for the former sink never publishes
-- between a commit to the other one and its settlement. Open replays and re-drives of an outside sink have their offsets alone already, but only
-- among each other.

CREATE OR REPLACE FUNCTION tideline.check_alone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner tideline.batch;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF NEW.alone <> (owner.outside AND owner.kind IN ('replay', 'redrive') AND owner.state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'batch %: a range of an open replay or re-drive of an outside sink is alone, and no other', NEW.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'INSERT' AND NOT NEW.reserves AND EXISTS (
        SELECT FROM tideline.batch_range AS r JOIN tideline.batch AS b ON b.batch_id = r.batch_id
        WHERE NOT r.reserves AND int8range(r.stream_id, r.stream_id, '[]') && int8range(NEW.stream_id, NEW.stream_id, '[]')
          AND r.offsets::int8range && NEW.offsets::int8range
          AND b.kind IN ('replay', 'redrive') AND b.state IN ('planned', 'writing', 'failed') AND b.outside <> owner.outside) THEN
        RAISE EXCEPTION 'batch %: an open replay or re-drive of offsets % of stream % was planned for another kind of sink',
            NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
