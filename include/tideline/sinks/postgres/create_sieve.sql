-- Create a temporary table in the shape of a staging table, without its NOT NULLs and checks, and with a number for
-- each row.
CREATE TEMPORARY TABLE tideline_sieve AS SELECT s.*, 0 AS tideline_row FROM {staging} s WITH NO DATA;
