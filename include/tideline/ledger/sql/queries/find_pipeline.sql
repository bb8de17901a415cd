-- Whether the ledger has this pipeline (a row), and whether an earlier transaction has planned for it.
SELECT created_at < now() AS planned_before FROM tideline.pipeline WHERE pipeline = %(pipeline)s;
