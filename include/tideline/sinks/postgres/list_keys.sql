-- List the columns of each primary or unique key of a table that is in force. Excluded are indexes over expressions,
-- partial indexes, and invalid indexes, such as a failed CREATE INDEX CONCURRENTLY leaves.
SELECT array_agg(a.attname::text) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indisvalid AND i.indisready
GROUP BY i.indexrelid;
