-- What an attempt stages is stored under its id. A ledger that was restored to an earlier moment gives the ids of that moment again, and a driver that has
-- lived on would stage for the attempt that has its id now. The number of an attempt is drawn at random: the restored ledger does not know that of such a
-- driver, and refuses what its tasks stage. It runs as the owner: executors may not read attempts.
CREATE FUNCTION tideline.staging_id(number uuid) RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint := (SELECT attempt_id FROM tideline.attempt WHERE attempt = number);
BEGIN
    IF found IS NULL THEN
        RAISE EXCEPTION 'staging for attempt % is refused: the ledger does not know it; was the ledger restored to an earlier moment?', number
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = 'attempt_is_known';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION tideline.staging_id IS 'the id under which an attempt stages; refused if the ledger does not know the attempt';
REVOKE ALL ON FUNCTION tideline.staging_id(uuid) FROM PUBLIC;
