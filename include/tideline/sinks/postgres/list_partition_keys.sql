-- List the unique keys of a partitioned table: for each its columns in order, and the columns that the table is
-- partitioned by, on all levels.
SELECT array_agg(a.attname::text ORDER BY k.place) AS columns,
       ARRAY(SELECT DISTINCT by.attname::text
             FROM pg_partition_tree(c.oid) AS part JOIN pg_partitioned_table p ON p.partrelid = part.relid
             JOIN pg_attribute by ON by.attrelid = part.relid AND by.attnum = ANY (p.partattrs::int2[])) AS partitioned_by
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind = 'p'
  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, c.oid;
