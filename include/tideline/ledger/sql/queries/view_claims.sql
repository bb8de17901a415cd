-- The outputs that a pipeline has claimed, and whether that of its rows moves only by a decision.
SELECT purpose, kind, place, shared, tideline.has_loaded(pipeline) AS has_loaded FROM tideline.claimed_output WHERE pipeline = %(pipeline)s ORDER BY purpose;
