-- Roles: each process may do its own work and no more. What only the laws write is written with the rights of the ledger's owner.

-- The Postgres roles of this ledger, as `tideline migrate --roles` has made them. None where one user does everything.
CREATE TABLE tideline.role (
    duty text PRIMARY KEY CHECK (duty IN ('owner', 'operator', 'writer', 'stager', 'reader')),
    name text NOT NULL UNIQUE
);

-- Triggers that write: history, outbox, letters, undo, and the ranges that are free again. They run as the owner, so that no role needs the
-- right to write there by itself. `check_staged` locks an attempt, which the roles of executors may not.
ALTER FUNCTION tideline.check_staged() SECURITY DEFINER;
ALTER FUNCTION tideline.fill_outbox() SECURITY DEFINER;
ALTER FUNCTION tideline.keep_position() SECURITY DEFINER;
ALTER FUNCTION tideline.keep_state() SECURITY DEFINER;
ALTER FUNCTION tideline.owe_letters() SECURITY DEFINER;
ALTER FUNCTION tideline.record_batch() SECURITY DEFINER;
ALTER FUNCTION tideline.record_hole() SECURITY DEFINER;
ALTER FUNCTION tideline.record_intent() SECURITY DEFINER;
ALTER FUNCTION tideline.record_rewind() SECURITY DEFINER;
ALTER FUNCTION tideline.record_stream() SECURITY DEFINER;
ALTER FUNCTION tideline.record_table() SECURITY DEFINER;
ALTER FUNCTION tideline.release_rewound() SECURITY DEFINER;

-- Events go only by this function. It deletes those of finished work, and none of the last day.
CREATE FUNCTION tideline.prune_events(name text, keep_days integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER AS $$
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
    RETURN n_events;
END $$;
COMMENT ON FUNCTION tideline.prune_events IS 'delete the events of a pipeline that are older than some days, except those of open or published batches';

-- Events: as in 0012, and the date counts only where the owner of the ledger deletes.
CREATE OR REPLACE FUNCTION tideline.check_prune() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID)
       AND OLD.at < nullif(current_setting('tideline.prune_before', true), '')::timestamptz AND OLD.at < now() - interval '1 day' AND NOT EXISTS (
        SELECT FROM tideline.batch WHERE batch_id = OLD.batch_id AND state IN ('planned', 'writing', 'failed', 'published')) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of tideline.event is refused: its rows are history' USING ERRCODE = 'restrict_violation';
END $$;

-- A staging table belongs to the role of the driver that has created it, and other roles clean up as well. The schema's owner may drop it.
CREATE FUNCTION tideline.drop_staging(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    part text[] := regexp_match(name, '^batch_(\d{1,18})_attempt_(\d{1,9})(?:_deleted|_state)?$');
BEGIN
    IF part IS NULL THEN
        RAISE EXCEPTION '% is no name of a staging table', name USING ERRCODE = 'invalid_name';
    END IF;
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = part[1]::bigint AND state = 'writing' AND fence = part[2]::integer) THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: its attempt holds batch %', name, part[1] USING ERRCODE = 'restrict_violation';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tideline_staging.%I', name);
END $$;
COMMENT ON FUNCTION tideline.drop_staging IS 'drop a table of staged rows, unless its attempt holds its batch';

-- A trigger runs with the search path of the session, in which a role could have put operators and functions of its own before those that the
-- laws mean.
ALTER FUNCTION tideline.carry_reason() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_alone() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_attempt() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_batch() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_cleared() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_coverage() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_folded() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_folded_is_published() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_free_table() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_gone_rejects() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_gone_undo() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_intent() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_kept_rejects() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_letters() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_new_batch() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_new_rejects() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_new_stateful() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_outbox() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_position() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_prune() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_range() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_rewound_coverage() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_rewound_hole() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_settled() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_slice() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_staged() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_state_batch() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_still_covered() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_stream() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_undo() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.check_undo_order() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.fill_outbox() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.keep_position() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.keep_state() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.owe_letters() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_batch() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_hole() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_intent() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_rewind() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_stream() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.record_table() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.refuse() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.release_rewound() SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.drop_staging(text) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION tideline.prune_events(text, integer) SET search_path = pg_catalog, pg_temp;

-- A role that may execute a trigger's function may also put it on a table of its own, and so write with the rights of the owner.
REVOKE EXECUTE ON FUNCTION
    tideline.carry_reason(), tideline.check_alone(), tideline.check_attempt(), tideline.check_batch(), tideline.check_cleared(),
    tideline.check_coverage(), tideline.check_folded(), tideline.check_folded_is_published(), tideline.check_free_table(),
    tideline.check_gone_rejects(), tideline.check_gone_undo(), tideline.check_intent(), tideline.check_kept_rejects(), tideline.check_letters(),
    tideline.check_new_batch(), tideline.check_new_rejects(), tideline.check_new_stateful(), tideline.check_outbox(), tideline.check_position(),
    tideline.check_prune(), tideline.check_range(), tideline.check_rewound_coverage(), tideline.check_rewound_hole(), tideline.check_settled(),
    tideline.check_slice(), tideline.check_staged(), tideline.check_state_batch(), tideline.check_still_covered(), tideline.check_stream(),
    tideline.check_undo(), tideline.check_undo_order(), tideline.fill_outbox(), tideline.keep_position(), tideline.keep_state(),
    tideline.owe_letters(), tideline.record_batch(), tideline.record_hole(), tideline.record_intent(), tideline.record_rewind(),
    tideline.record_stream(), tideline.record_table(), tideline.refuse(), tideline.release_rewound(), tideline.drop_staging(text),
    tideline.prune_events(text, integer)
    FROM PUBLIC;
