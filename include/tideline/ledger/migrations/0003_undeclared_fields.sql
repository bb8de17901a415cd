-- The fields of records that no column takes. They are read over, so one that producers have added would vanish without a trace.

CREATE TABLE tideline.attempt_field (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt,
    part text NOT NULL CHECK (part IN ('key', 'value')),
    name text NOT NULL CHECK (name <> ''),
    n_records bigint NOT NULL CHECK (n_records > 0),
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    record_offset bigint NOT NULL CHECK (record_offset >= 0),
    counted text[] NOT NULL CHECK (cardinality(counted) > 0),
    PRIMARY KEY (attempt_id, part, name)
);
COMMENT ON COLUMN tideline.attempt_field.name IS 'the name of the field, or its path in structs';
COMMENT ON COLUMN tideline.attempt_field.n_records IS 'how many records that the attempt has read have it; with a schema, how many were written with a schema that has it';
COMMENT ON COLUMN tideline.attempt_field.record_offset IS 'where one of them is';
COMMENT ON COLUMN tideline.attempt_field.counted IS 'the first record of each task that is counted here: a task that runs twice is counted once';

CREATE TRIGGER field_never_goes BEFORE DELETE ON tideline.attempt_field FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER field_is_never_truncated BEFORE TRUNCATE ON tideline.attempt_field FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.attempt_field EXECUTE FUNCTION tideline.check_isolation();

-- Executors, which read records of anyone, may not read or change the table at will: they add to what the attempt whose number they have has counted.
-- A producer may make a name of each value, so an attempt keeps about 200 of them.
CREATE FUNCTION tideline.count_fields(
    number uuid, task text, parts text[], names text[], counts bigint[], stream_ids bigint[], record_offsets bigint[])
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own bigint := tideline.staging_id(number);
    n_before bigint := (SELECT count(*) FROM tideline.attempt_field WHERE attempt_id = own);
BEGIN
    INSERT INTO tideline.attempt_field (attempt_id, part, name, n_records, stream_id, record_offset, counted)
    SELECT own, part, name, n_records, stream_id, record_offset, ARRAY[task]
    FROM unnest(parts, names, counts, stream_ids, record_offsets) AS given (part, name, n_records, stream_id, record_offset)
    WHERE n_before < 200 OR EXISTS (
        SELECT FROM tideline.attempt_field AS before WHERE (before.attempt_id, before.part, before.name) = (own, given.part, given.name))
    ORDER BY part, name  -- two tasks that lock the same rows do so in one order
    ON CONFLICT (attempt_id, part, name) DO UPDATE
    SET n_records = attempt_field.n_records + excluded.n_records, counted = attempt_field.counted || excluded.counted
    WHERE NOT attempt_field.counted @> excluded.counted;
END $$;
COMMENT ON FUNCTION tideline.count_fields IS 'adds what a task has counted, unless it has done so before';

REVOKE EXECUTE ON FUNCTION tideline.count_fields(uuid, text, text[], text[], bigint[], bigint[], bigint[]) FROM PUBLIC;
