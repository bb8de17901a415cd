-- Whether a pipeline was planned before this transaction.
SELECT created_at < now() AS planned_before FROM tideline.pipeline WHERE pipeline = %(pipeline)s;
