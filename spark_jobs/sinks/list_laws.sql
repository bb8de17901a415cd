-- What is true of a row that breaks a NOT NULL or a CHECK of a staging table, in the order in which the server looks at them: columns by number, checks
-- by name. Without a semicolon: the driver puts it into COPY (...). A check that is null holds, and one that is not enforced (from PostgreSQL 18 on) does not count.
SELECT condition FROM (
    SELECT 1 AS kind, attnum AS place, '' AS name, format('%I IS NULL', attname) AS condition
    FROM pg_attribute WHERE attrelid = '{staging}'::regclass AND attnotnull AND attnum > 0 AND NOT attisdropped
    UNION ALL
    SELECT 2, 0, conname::text, format('NOT (%s)', pg_get_expr(conbin, conrelid))
    FROM pg_constraint c
    WHERE conrelid = '{staging}'::regclass AND contype = 'c' AND coalesce((to_jsonb(c) ->> 'conenforced')::boolean, true)
) AS laws
ORDER BY kind, place, name COLLATE "C"
