-- The schemas of records that name theirs by an id of a schema registry. A record means nothing without its schema, and a registry can be emptied or
-- set up anew. So each schema that a batch has used is kept, once, by its hash, before a row of the batch is staged: a replay, a re-drive or a person
-- who asks needs no registry.

CREATE TABLE tideline.schema (
    schema_hash bytea PRIMARY KEY,
    kind text NOT NULL CHECK (kind <> ''),
    text text NOT NULL,
    reference_names text[] NOT NULL DEFAULT '{}' CHECK (array_position(reference_names, NULL) IS NULL),
    reference_texts text[] NOT NULL DEFAULT '{}' CHECK (array_position(reference_texts, NULL) IS NULL),
    kept_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT each_reference_has_a_name CHECK (cardinality(reference_names) = cardinality(reference_texts)),
    -- No text of a schema holds the character between the parts.
    CONSTRAINT hash_is_of_the_text CHECK (
        schema_hash = sha256(convert_to(array_to_string(ARRAY[kind, text] || reference_names || reference_texts, U&'\001E'), 'UTF8')))
);
COMMENT ON COLUMN tideline.schema.kind IS 'AVRO, JSON or PROTOBUF, as the registry says';
COMMENT ON COLUMN tideline.schema.reference_names IS 'what the text calls each of the reference_texts, as an import of Protobuf does';
COMMENT ON COLUMN tideline.schema.reference_texts IS 'the schemas that the text names, each behind those that it names itself';

-- Which schema an id means to a pipeline. Registries number schemas from 1, so one that was emptied gives the numbers again, to other schemas: what
-- is in the topic would be read as something else. So an id never changes its meaning, and a pipeline that goes over to another registry gives that
-- another name.
CREATE TABLE tideline.registered_schema (
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    registry text NOT NULL CHECK (registry <> ''),
    schema_id bigint NOT NULL CHECK (schema_id >= 0),
    schema_hash bytea NOT NULL REFERENCES tideline.schema,
    subjects text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (pipeline, registry, schema_id)
);
COMMENT ON COLUMN tideline.registered_schema.registry IS 'the name that the declaration gives its registry';
COMMENT ON COLUMN tideline.registered_schema.subjects IS 'under which the schema was registered when it was first used';

-- Which schemas the records of an attempt named. Those of a batch are those of the attempt that has published it.
CREATE TABLE tideline.attempt_schema (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt,
    part text NOT NULL CHECK (part IN ('key', 'value')),
    schema_id bigint NOT NULL,
    pipeline text NOT NULL,
    registry text NOT NULL,
    PRIMARY KEY (attempt_id, part, schema_id),
    FOREIGN KEY (pipeline, registry, schema_id) REFERENCES tideline.registered_schema
);

-- Whether any batch has used an id, for keys or for values.
CREATE INDEX attempt_schema_of_id ON tideline.attempt_schema (pipeline, registry, schema_id, part);

CREATE TRIGGER schema_never_changes BEFORE UPDATE OR DELETE ON tideline.schema FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER schema_is_never_truncated BEFORE TRUNCATE ON tideline.schema FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER id_never_changes_its_meaning BEFORE UPDATE OR DELETE ON tideline.registered_schema FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER id_is_never_truncated BEFORE TRUNCATE ON tideline.registered_schema FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER use_never_changes BEFORE UPDATE OR DELETE ON tideline.attempt_schema FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER use_is_never_truncated BEFORE TRUNCATE ON tideline.attempt_schema FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.schema EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.registered_schema EXECUTE FUNCTION tideline.check_isolation();
CREATE TRIGGER at_read_committed_only BEFORE INSERT OR UPDATE OR DELETE ON tideline.attempt_schema EXECUTE FUNCTION tideline.check_isolation();

-- Executors, which read records of anyone, may not read or change these tables at will: they ask, and keep, for the attempt whose number they have.

CREATE FUNCTION tideline.keep_schema(
    number uuid, registry text, schema_id bigint, kind text, schema text, reference_names text[], reference_texts text[], subjects text[])
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    hash bytea := sha256(convert_to(array_to_string(ARRAY[kind, schema] || reference_names || reference_texts, U&'\001E'), 'UTF8'));
BEGIN
    INSERT INTO tideline.schema (schema_hash, kind, text, reference_names, reference_texts)
    VALUES (hash, kind, schema, reference_names, reference_texts) ON CONFLICT DO NOTHING;
    INSERT INTO tideline.registered_schema (pipeline, registry, schema_id, schema_hash, subjects)
    SELECT pipeline, keep_schema.registry, keep_schema.schema_id, hash, keep_schema.subjects
    FROM tideline.attempt JOIN tideline.batch USING (batch_id) WHERE attempt_id = tideline.staging_id(number)
    ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION tideline.keep_schema IS 'keeps what an id means to the pipeline of an attempt; one that is kept already stays as it is';

CREATE FUNCTION tideline.use_schemas(number uuid, part text, registry text, schema_ids bigint[])
    RETURNS TABLE (schema_id bigint, kind text, schema text, reference_names text[], reference_texts text[], subjects text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    own bigint := tideline.staging_id(number);
BEGIN
    INSERT INTO tideline.attempt_schema (attempt_id, part, schema_id, pipeline, registry)
    SELECT own, use_schemas.part, schema_id, pipeline, registry
    FROM tideline.attempt JOIN tideline.batch USING (batch_id) JOIN tideline.registered_schema USING (pipeline)
    WHERE attempt_id = own AND registry = use_schemas.registry AND schema_id = ANY (schema_ids)
    ORDER BY schema_id
    ON CONFLICT DO NOTHING;
    RETURN QUERY
    SELECT schema_id, kind, text, reference_names, reference_texts, subjects
    FROM tideline.attempt_schema AS used JOIN tideline.registered_schema USING (pipeline, registry, schema_id) JOIN tideline.schema USING (schema_hash)
    WHERE attempt_id = own AND used.part = use_schemas.part AND registry = use_schemas.registry AND schema_id = ANY (schema_ids);
END $$;
COMMENT ON FUNCTION tideline.use_schemas IS 'the kept schemas of these ids, which are recorded as used by the attempt';

REVOKE EXECUTE ON FUNCTION
    tideline.keep_schema(uuid, text, bigint, text, text, text[], text[], text[]), tideline.use_schemas(uuid, text, text, bigint[]) FROM PUBLIC;
