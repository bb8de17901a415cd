-- The names of all pipelines that the ledger knows, and since when those are retired that are.
SELECT pipeline, retired_at FROM tideline.pipeline ORDER BY pipeline;
