-- name: empty_sieve
-- Empty the sieve: the rows of the previous use are staged or refused.
TRUNCATE {sieve};

-- name: sift
-- Stage the rows that break no law, and return for each other row the number of the first law that it breaks. The rows
-- are judged in a materialized CTE, so that both parts of the statement use the same result for each row. There is no
-- semicolon, because the driver puts the query into COPY (...).
WITH judged AS MATERIALIZED (SELECT *, CASE {laws} END AS tideline_law FROM {sieve}),
     passed AS (INSERT INTO {staging} ({columns}) SELECT {columns} FROM judged WHERE tideline_law IS NULL)
SELECT tideline_row, tideline_law FROM judged WHERE tideline_law IS NOT NULL ORDER BY tideline_row

-- name: list_laws
-- List the negated NOT NULLs and checks of a staging table as conditions, in the order in which the server checks them:
-- columns by number, then checks by name. A check that is null holds, and a check that is not enforced (possible from
-- PostgreSQL 18 on) is left out. There is no semicolon, because the driver puts the query into COPY (...).
SELECT condition FROM (
    SELECT 1 AS kind, attnum AS place, '' AS name, format('%I IS NULL', attname) AS condition
    FROM pg_attribute WHERE attrelid = '{staging}'::regclass AND attnotnull AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT 2, 0, conname::text, format('NOT (%s)', pg_get_expr(conbin, conrelid))
    FROM pg_constraint c
    WHERE conrelid = '{staging}'::regclass AND contype = 'c' AND coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true)
) AS laws
ORDER BY kind, place, name COLLATE "C"

-- name: create_sieve
-- Create a temporary table in the shape of a staging table, without its NOT NULLs and checks, and with a number for
-- each row.
CREATE TEMPORARY TABLE tideline_sieve AS SELECT s.*, 0 AS tideline_row FROM {staging} s WITH NO DATA;
