-- Which pipeline writes which table of this database, so that two deployments that cannot see each other's declarations keep out of each other's
-- tables. Several pipelines may write one table if each of them says so.

-- With && it says "same name", which needs no extension, as int8range does for ids.
CREATE TYPE tideline.names AS RANGE (subtype = text, collation = "C");

CREATE TABLE tideline.output_table (
    pipeline text PRIMARY KEY REFERENCES tideline.pipeline,
    table_name text NOT NULL CHECK (table_name ~ '^[^.]+\.[^.]+$'),
    shared boolean NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    -- A pipeline that shares its table stands for its own name only, one that does not for all names there are.
    CONSTRAINT tables_are_shared_by_consent EXCLUDE USING gist (
        tideline.names(table_name, table_name, '[]') WITH &&,
        (CASE WHEN shared THEN tideline.names(pipeline, pipeline, '[]') ELSE tideline.names(NULL, NULL) END) WITH &&)
);

CREATE FUNCTION tideline.record_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO tideline.event (action, pipeline, detail) VALUES ('free table', OLD.pipeline, jsonb_build_object('table', OLD.table_name));
    ELSE
        INSERT INTO tideline.event (action, pipeline, detail)
        VALUES ('claim table', NEW.pipeline, jsonb_build_object('table', NEW.table_name, 'shared', NEW.shared));
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER table_writes_its_history AFTER INSERT OR UPDATE OR DELETE ON tideline.output_table
    FOR EACH ROW EXECUTE FUNCTION tideline.record_table();

-- A batch that is open may still be published into the table that its pipeline has.
CREATE FUNCTION tideline.check_free_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE pipeline = OLD.pipeline AND state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'table % of pipeline % is not free: batches of it are open', OLD.table_name, OLD.pipeline
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER table_is_freed_when_idle BEFORE DELETE ON tideline.output_table FOR EACH ROW EXECUTE FUNCTION tideline.check_free_table();

-- The ranges over some offsets of batches that reserve nothing, as replays do. Index scans only: publishing a replay asks for each of its ranges.
CREATE INDEX batch_range_replaying ON tideline.batch_range
    USING gist (int8range(stream_id, stream_id, '[]'), (offsets::int8range)) WHERE NOT reserves;
CREATE FUNCTION tideline.replaying(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range LANGUAGE sql STABLE AS $$
    SELECT * FROM tideline.batch_range
    WHERE NOT reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
