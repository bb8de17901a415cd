-- name: use_schemas
-- The kept schemas of these ids, which are recorded as used by the attempt.
SELECT schema_id, kind, schema, reference_names, reference_texts, subjects
FROM tideline.use_schemas(%(attempt)s::uuid, %(part)s, %(registry)s, %(schema_ids)s::bigint[]);

-- name: keep_schema
-- Keep what an id means to the pipeline of an attempt. One that is kept already stays as it is.
SELECT tideline.keep_schema(
    %(attempt)s::uuid, %(registry)s, %(schema_id)s, %(kind)s, %(schema)s, %(reference_names)s::text[], %(reference_texts)s::text[], %(subjects)s::text[]);
