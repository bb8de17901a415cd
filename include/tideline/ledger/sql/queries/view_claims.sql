-- The outputs that a pipeline has claimed.
SELECT purpose, kind, place, shared FROM tideline.claimed_output WHERE pipeline = %(pipeline)s ORDER BY purpose;
