-- List the columns of a table, in order; no rows if the table does not exist. `precision` and `scale` are those of
-- numeric(p, s); `scale` is negative if a column stores whole hundreds, for example. `length` is that of varchar(n).
-- `filled` is set if only the table may give a value.
SELECT a.attname AS name,
       format_type(a.atttypid, NULL) AS type_name,
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod > 0 THEN (a.atttypmod - 4) >> 16 END AS precision,
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod > 0 THEN (((a.atttypmod - 4) & 2047) # 1024) - 1024 END AS scale,
       CASE WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 0 THEN a.atttypmod - 4 END AS length,
       CASE WHEN a.attgenerated <> '' THEN 'GENERATED' WHEN a.attidentity = 'a' THEN 'IDENTITY ALWAYS' END AS filled,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '' AS required,
       a.attnotnull AS not_null
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;
