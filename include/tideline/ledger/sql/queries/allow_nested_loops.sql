-- Allow nested loop joins again.
SET LOCAL enable_nestloop = on;
