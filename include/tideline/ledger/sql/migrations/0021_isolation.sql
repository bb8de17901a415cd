-- The isolation level of what writes to the ledger.

-- The laws compare with rows that others have committed, often after a wait for a lock. At REPEATABLE READ a trigger looks with the snapshot of before
-- the wait: it would accept a hole over offsets that a batch has reserved meanwhile, or a publication over the mark of a newer tombstone. SERIALIZABLE
-- would end in errors that a retry meets again, in sessions that take turns by locks already. So both are refused, in every session: the product sets
-- the level itself, and a database or a role may have another one for psql.
CREATE FUNCTION tideline.check_isolation() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION '% of tideline.% is refused at the isolation level %: the laws of the ledger have to see what others have committed',
            TG_OP, TG_TABLE_NAME, current_setting('transaction_isolation')
            USING ERRCODE = 'restrict_violation', CONSTRAINT = 'at_read_committed_only',
                  HINT = 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED, or SET default_transaction_isolation = ''read committed'' before.';
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION tideline.check_isolation() FROM PUBLIC;

CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.attempt EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.batch_range EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.coverage EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.event EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.gone_hole EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.gone_reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.intent EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.letters EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.outbox EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.output_table EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.pipeline EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.redrive EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.rewind EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.role EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.run_batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_count EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_redrive EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.staged_reject EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_batch EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_columns EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_position EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_position_undo EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.state_undo EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.stream EXECUTE FUNCTION tideline.check_isolation();
