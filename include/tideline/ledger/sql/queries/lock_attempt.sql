-- Lock an attempt, so that no task of it stores counts or rejects until the end of the transaction.
SELECT attempt_id FROM tideline.attempt WHERE attempt_id = %(attempt_id)s FOR UPDATE;
