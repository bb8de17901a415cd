-- Which columns the stored states of a pipeline have, and whether it has any, or a rewind could bring some back.
SELECT key_columns, columns,
       EXISTS (SELECT FROM tideline.state s WHERE s.pipeline = c.pipeline)
       OR EXISTS (SELECT FROM tideline.state_batch b WHERE b.pipeline = c.pipeline AND b.undo = 'kept') AS has_states
FROM tideline.state_columns c WHERE pipeline = %(pipeline)s;
