-- The attempts of a batch, newest first.
SELECT attempt_id, attempt, fence FROM tideline.attempt WHERE batch_id = %(batch_id)s ORDER BY fence DESC;
