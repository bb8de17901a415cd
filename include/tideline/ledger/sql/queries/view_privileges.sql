-- Privileges of the ledger's user: whether it can create staging tables, and which tables of the ledger it cannot read
-- or write.
SELECT has_schema_privilege('tideline_staging', 'CREATE') AS can_stage,
       (SELECT coalesce(array_agg(c.relname::text ORDER BY c.relname), '{}')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'tideline' AND c.relkind = 'r' AND c.relname <> 'migration'
          AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT'))) AS closed_tables;
