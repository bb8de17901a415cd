-- Store which columns the states of a pipeline have from now on.
INSERT INTO tideline.state_columns (pipeline, key_columns, columns) VALUES (%(pipeline)s, to_jsonb(%(key_columns)s::text[]), %(columns)s)
ON CONFLICT (pipeline) DO UPDATE SET key_columns = excluded.key_columns, columns = excluded.columns;
