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
