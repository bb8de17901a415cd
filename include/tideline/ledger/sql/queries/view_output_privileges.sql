-- Whether the ledger's user can write an output table, or create it if it does not exist. DELETE is needed because a
-- replay deletes rows, and UPDATE where newer records replace rows.
SELECT c.oid IS NOT NULL AS exists,
       CASE WHEN c.oid IS NOT NULL
            THEN has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'DELETE')
                 AND (NOT %(upsert)s OR has_table_privilege(c.oid, 'UPDATE'))
            WHEN n.oid IS NOT NULL THEN has_schema_privilege(n.oid, 'CREATE')
            ELSE has_database_privilege(current_database(), 'CREATE') END AS can_write
FROM (VALUES (1)) AS one
LEFT JOIN pg_namespace n ON n.nspname = %(schema)s
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = %(table)s AND c.relkind IN ('r', 'p');
