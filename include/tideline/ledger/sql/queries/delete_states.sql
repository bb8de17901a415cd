-- Delete the states that a batch has cleared. The keys are an array, so that they are looked up in the index: a join with millions of other states could
-- read all of them.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND key = ANY (ARRAY(SELECT key FROM {staging} WHERE value IS NULL));
