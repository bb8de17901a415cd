-- name: find_state_columns
-- Which columns the stored states of a pipeline have, and whether it has any, or a rewind could bring some back.
SELECT key_columns, columns,
       EXISTS (SELECT FROM tideline.state s WHERE s.pipeline = c.pipeline)
       OR EXISTS (SELECT FROM tideline.state_batch b WHERE b.pipeline = c.pipeline AND b.undo = 'kept') AS has_states
FROM tideline.state_columns c WHERE pipeline = %(pipeline)s;

-- name: keep_state_columns
-- Store which columns the states of a pipeline have from now on.
INSERT INTO tideline.state_columns (pipeline, key_columns, columns) VALUES (%(pipeline)s, to_jsonb(%(key_columns)s::text[]), %(columns)s)
ON CONFLICT (pipeline) DO UPDATE SET key_columns = excluded.key_columns, columns = excluded.columns;
