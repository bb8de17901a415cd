-- Which columns the stored states of a pipeline have, and whether it has any.
SELECT key_columns, columns, EXISTS (SELECT FROM tideline.state s WHERE s.pipeline = c.pipeline) AS has_states
FROM tideline.state_columns c WHERE pipeline = %(pipeline)s;
