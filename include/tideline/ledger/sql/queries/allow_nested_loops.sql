-- As it was.
SET LOCAL enable_nestloop = on;
