-- Which pipeline writes which output, of every kind, so that two deployments that cannot see each other's declarations keep out of each other's
-- outputs, and do not load one pipeline into two of them in turns.
ALTER TABLE tideline.output_table RENAME TO claimed_output;
ALTER TABLE tideline.claimed_output RENAME COLUMN table_name TO place;
ALTER TABLE tideline.claimed_output
    ADD purpose text NOT NULL DEFAULT 'rows',
    ADD kind text NOT NULL DEFAULT 'postgres',
    DROP CONSTRAINT output_table_table_name_check,
    DROP CONSTRAINT tables_are_shared_by_consent,
    DROP CONSTRAINT output_table_pkey;
ALTER TABLE tideline.claimed_output RENAME CONSTRAINT output_table_pipeline_fkey TO claimed_output_pipeline_fkey;
ALTER TABLE tideline.claimed_output
    ALTER purpose DROP DEFAULT,
    ALTER kind DROP DEFAULT,
    ADD CONSTRAINT claimed_output_pkey PRIMARY KEY (pipeline, purpose),
    ADD CONSTRAINT output_has_a_kind CHECK (kind IN ('postgres', 'kafka', 'delta')),
    -- Several pipelines may send their rejects to one topic. It is no other pipeline's output for rows, unless that one shares it.
    ADD CONSTRAINT output_has_a_purpose CHECK (purpose = 'rows' OR purpose = 'rejects' AND kind = 'kafka' AND shared),
    -- schema.table of the ledger's own database; cluster id and topic; the real path of a folder, or the address of one in an object store.
    -- Both bounds of a range have to fit into a page of the index.
    ADD CONSTRAINT place_fits_its_kind CHECK (place ~ CASE kind WHEN 'postgres' THEN '^[^.]+\.[^.]+$' WHEN 'kafka' THEN '^[^/]+/[^/]+$' ELSE '^(/|s3://)' END
        AND octet_length(place) <= 1000),
    -- A pipeline that shares its output stands for its own name only, one that does not for all names there are.
    ADD CONSTRAINT outputs_are_shared_by_consent EXCLUDE USING gist (
        tideline.names(kind || ' ' || place, kind || ' ' || place, '[]') WITH &&,
        (CASE WHEN shared THEN tideline.names(pipeline || ' ' || purpose, pipeline || ' ' || purpose, '[]') ELSE tideline.names(NULL, NULL) END) WITH &&);

DROP TRIGGER table_writes_its_history ON tideline.claimed_output;
DROP TRIGGER table_is_freed_when_idle ON tideline.claimed_output;
DROP FUNCTION tideline.record_table();
DROP FUNCTION tideline.check_free_table();

CREATE FUNCTION tideline.record_output() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('free output', OLD.pipeline, jsonb_build_object('purpose', OLD.purpose, 'kind', OLD.kind, 'place', OLD.place));
    ELSIF TG_OP = 'UPDATE' AND (OLD.kind, OLD.place) <> (NEW.kind, NEW.place) THEN
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('move output', NEW.pipeline, jsonb_build_object('purpose', NEW.purpose, 'from_kind', OLD.kind, 'from_place', OLD.place,
            'kind', NEW.kind, 'place', NEW.place, 'shared', NEW.shared));
    ELSE
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('claim output', NEW.pipeline,
            jsonb_build_object('purpose', NEW.purpose, 'kind', NEW.kind, 'place', NEW.place, 'shared', NEW.shared));
    END IF;
    RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION tideline.record_output() FROM PUBLIC;
CREATE TRIGGER output_writes_its_history AFTER INSERT OR UPDATE OR DELETE ON tideline.claimed_output
    FOR EACH ROW EXECUTE FUNCTION tideline.record_output();

-- A batch that is open may still be published into the output that its pipeline has. Its rejects are sent to the topic that is declared by then.
CREATE FUNCTION tideline.check_free_output() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'output % of pipeline % is not free: batches of it are open', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
REVOKE EXECUTE ON FUNCTION tideline.check_free_output() FROM PUBLIC;
CREATE TRIGGER output_is_freed_when_idle BEFORE DELETE ON tideline.claimed_output FOR EACH ROW
    WHEN (OLD.purpose = 'rows') EXECUTE FUNCTION tideline.check_free_output();

-- What was only planned, or has failed before an intent, is in no output.
CREATE FUNCTION tideline.may_have_committed(name text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tideline.intent JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = intent.batch_id
                   WHERE b.pipeline = name AND b.state = 'failed' AND a.fence >= b.sealed_fence)
$$;
COMMENT ON FUNCTION tideline.may_have_committed(name text) IS 'whether an attempt at a failed batch of a pipeline may have committed it outside';
CREATE FUNCTION tideline.has_loaded(name text) RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM tideline.batch WHERE pipeline = name AND state IN ('writing', 'published', 'advanced', 'superseded'))
        OR tideline.may_have_committed(name)
$$;
COMMENT ON FUNCTION tideline.has_loaded(name text) IS 'whether an output holds records of a pipeline, or may soon or unknown to the ledger: its claim moves by a decision only';

-- Two deployments with one ledger may declare one pipeline with different outputs. Its records would go to the one or the other, in turns.
-- What may have been committed to the former one has to be settled or fenced there first: in the new one no receipt of it is found.
CREATE FUNCTION tideline.check_moved_output() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state = 'writing') THEN
        RAISE EXCEPTION 'output % of pipeline % does not move: a batch of it is being written', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    ELSIF tideline.may_have_committed(OLD.pipeline) THEN
        RAISE EXCEPTION 'output % of pipeline % does not move: a batch may have been committed to it', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    ELSIF coalesce(current_setting('tideline.reason', true), '') = '' AND tideline.has_loaded(OLD.pipeline) THEN
        RAISE EXCEPTION 'output % of pipeline % does not move without a reason: it has been loaded', OLD.place, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
REVOKE EXECUTE ON FUNCTION tideline.check_moved_output() FROM PUBLIC;
CREATE TRIGGER output_moves_by_decision BEFORE UPDATE ON tideline.claimed_output FOR EACH ROW
    WHEN (OLD.purpose = 'rows' AND (OLD.kind, OLD.place, OLD.purpose, OLD.pipeline) IS DISTINCT FROM (NEW.kind, NEW.place, NEW.purpose, NEW.pipeline))
    EXECUTE FUNCTION tideline.check_moved_output();
