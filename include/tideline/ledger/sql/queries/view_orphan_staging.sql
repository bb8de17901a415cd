-- Staging tables of attempts that no longer write: superseded, failed, or unknown to the ledger. Without those that may
-- still be committed outside.
SELECT c.relname::text AS table_name, pg_total_relation_size(c.oid) AS n_bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'tideline_staging' AND c.relkind = 'r'
  AND NOT EXISTS (SELECT FROM tideline.batch WHERE state = 'writing' AND regexp_replace(c.relname, '_(deleted|state)$', '') = 'batch_' || batch_id || '_attempt_' || fence)
  AND NOT EXISTS (SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) JOIN tideline.batch ON batch.batch_id = intent.batch_id
                  WHERE state IN ('planned', 'writing', 'failed') AND c.relname = 'batch_' || intent.batch_id || '_attempt_' || attempt.fence)
ORDER BY c.relname;
