-- A topic that was given up for a later incarnation of its name, and that an operator follows again. What is read of it from then on may be older or
-- newer than the records of the incarnations in between: offsets do not say it. So the stream remembers where its later records begin.
ALTER TABLE tideline.stream ADD COLUMN returned_offset bigint, ADD COLUMN returned_behind bigint,
    ADD CONSTRAINT return_has_both CHECK ((returned_offset IS NULL) = (returned_behind IS NULL));
COMMENT ON COLUMN tideline.stream.returned_offset IS 'its head when it was first followed again after it had retired';
COMMENT ON COLUMN tideline.stream.returned_behind IS 'the newest stream of the ledger when it was last followed again';

CREATE FUNCTION tideline.note_return() RETURNS trigger LANGUAGE plpgsql SET search_path TO 'pg_catalog', 'pg_temp' AS $$
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
CREATE TRIGGER stream_remembers_its_return BEFORE INSERT OR UPDATE ON tideline.stream FOR EACH ROW EXECUTE FUNCTION tideline.note_return();
REVOKE EXECUTE ON FUNCTION tideline.note_return() FROM PUBLIC;
