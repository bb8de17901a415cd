-- Read the properties of a table that do not belong to a column: what kind of relation it is, its rules, what of it a
-- crash of the server empties, whether row-level security applies to this user, whether a foreign key of the table refers
-- to the table itself, and the constraints that would be checked at COMMIT (its own, and those of other tables that refer
-- to its rows). Rows of a partitioned table are in its partitions, and Postgres applies no rules of these.
SELECT c.relkind::text AS kind,
       ARRAY(SELECT ARRAY[r.rulename::text, CASE r.ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END]
             FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled IN ('O', 'A') ORDER BY r.rulename) AS rules,
       ARRAY(SELECT format('%%I.%%I', s.nspname, u.relname)
             FROM pg_class u JOIN pg_namespace s ON s.oid = u.relnamespace
             WHERE u.relpersistence = 'u' AND u.relkind = 'r'
               AND (u.oid = c.oid OR u.oid IN (SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf))
             ORDER BY 1) AS unlogged,
       row_security_active(c.oid) AS row_security,
       EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = c.oid AND k.confrelid = c.oid) AS refers_to_itself,
       ARRAY(SELECT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.conrelid = c.oid) AS deferred,
       ARRAY(SELECT DISTINCT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.confrelid = c.oid AND k.conrelid <> c.oid) AS referring
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s;
