-- Delete what the attempts of a batch have left in the ledger's own staging tables.
WITH attempts AS MATERIALIZED (SELECT attempt_id FROM tideline.attempt WHERE batch_id = %(batch_id)s),
     counts AS (DELETE FROM tideline.staged_count USING attempts WHERE staged_count.attempt_id = attempts.attempt_id),
     redriven AS (DELETE FROM tideline.staged_redrive USING attempts WHERE staged_redrive.attempt_id = attempts.attempt_id)
DELETE FROM tideline.staged_reject USING attempts WHERE staged_reject.attempt_id = attempts.attempt_id;
