-- Collect statistics of the staged states: without them the planner expects a few rows.
ANALYZE {staging};
