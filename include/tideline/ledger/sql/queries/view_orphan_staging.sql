-- Staging tables of attempts that no longer write: superseded, failed, or unknown to the ledger.
SELECT c.relname::text AS table_name, pg_total_relation_size(c.oid) AS n_bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tideline_staging' AND c.relkind = 'r'
  AND NOT EXISTS (SELECT FROM tideline.batch WHERE state = 'writing' AND c.relname = 'batch_' || batch_id || '_attempt_' || fence)
ORDER BY c.relname;
