-- A batch may add the columns that its output lacks: an event names each of them, with the batch that needed it.

CREATE OR REPLACE FUNCTION tideline.check_event() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    by_owner boolean := current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID);
BEGIN
    NEW.at := clock_timestamp();
    NEW.actor := coalesce(nullif(current_setting('tideline.actor', true), ''), session_user);
    NEW.login := session_user;
    IF by_owner AND (pg_trigger_depth() > 1 OR NEW.action = 'prune events') THEN
        RETURN NEW;
    END IF;
    IF num_nonnulls(NEW.from_state, NEW.to_state) > 0
        OR NEW.action NOT IN ('retry', 'refuse', 'supersede partly', 'recreate table', 'add column') THEN
        RAISE EXCEPTION 'INSERT of "%" into tideline.event is refused: it is written with what it records', NEW.action
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
