-- Disable nested loop joins until allow_nested_loops, or until the transaction ends. For joins of rows that were just
-- written, of which the planner has no statistics.
SET LOCAL enable_nestloop = off;
