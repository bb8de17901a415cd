-- The btree indexes of a table over values of any length, as its staging table can have them: keys and condition as SQL. In place of the coordinates
-- that staging lacks stand columns that take as much room. Left out is what needs more of the target's columns than staging has.
SELECT (SELECT string_agg(CASE key.text WHEN 'kafka_topic_id' THEN 'tideline_stream, tideline_task' WHEN 'kafka_partition' THEN 'tideline_stream'
                                        WHEN 'tideline_batch' THEN 'tideline_task' ELSE key.text END, ', ' ORDER BY place)
        FROM generate_series(1, i.indnatts) AS place, LATERAL (SELECT pg_get_indexdef(i.indexrelid, place, false)) AS key (text)) AS keys,
       coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS condition
FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am ON pg_am.oid = c.relam
WHERE n.nspname = %(schema)s AND t.relname = %(table)s AND pg_am.amname = 'btree'
  AND EXISTS (SELECT FROM pg_attribute k WHERE k.attrelid = i.indexrelid AND k.attlen = -1)
  AND NOT EXISTS (
      SELECT FROM pg_attribute a
      WHERE a.attrelid = i.indrelid AND a.attname <> ALL (%(columns)s)
        AND (a.attnum = ANY (i.indkey::int2[])
             OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = i.indexrelid
                        AND d.refobjid = i.indrelid AND d.refobjsubid = a.attnum))
        AND NOT (a.attname IN ('kafka_topic_id', 'kafka_partition', 'tideline_batch') AND i.indexprs IS NULL AND i.indpred IS NULL));
