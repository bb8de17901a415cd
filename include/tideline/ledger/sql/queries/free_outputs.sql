-- Delete a pipeline's claims. -> kind and place of each. The pipeline must have no open batches.
WITH freed AS (DELETE FROM tideline.claimed_output WHERE pipeline = %(pipeline)s RETURNING purpose, kind, place)
SELECT * FROM freed ORDER BY purpose;
