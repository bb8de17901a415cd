-- Read the properties of a table that do not belong to a column: whether row-level security applies to this user,
-- whether a foreign key of the table refers to the table itself, and the constraints that would be checked at COMMIT
-- (its own, and those of other tables that refer to its rows).
SELECT row_security_active(c.oid) AS row_security,
       EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = c.oid AND k.confrelid = c.oid) AS refers_to_itself,
       ARRAY(SELECT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.conrelid = c.oid) AS deferred,
       ARRAY(SELECT DISTINCT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.confrelid = c.oid AND k.conrelid <> c.oid) AS referring
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s;
