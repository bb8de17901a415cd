-- The names of all pipelines that the ledger knows.
SELECT pipeline FROM tideline.pipeline ORDER BY pipeline;
