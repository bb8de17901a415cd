-- Staging tables of attempts that no longer write: superseded, failed, or unknown to the ledger. Without those that may
-- still be committed outside. Each with its batch and the fence of its attempt, as far as the ledger knows them.
SELECT c.relname::text AS table_name, pg_total_relation_size(c.oid) AS n_bytes, a.batch_id, a.fence
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN LATERAL regexp_match(c.relname, '^attempt_([0-9a-f]+)(?:_deleted|_state)?$') AS m (part) ON true
LEFT JOIN tideline.attempt a ON a.attempt = CASE length(m.part[1]) WHEN 32 THEN m.part[1]::uuid END
LEFT JOIN tideline.batch b USING (batch_id)
WHERE n.nspname = 'tideline_staging' AND c.relkind = 'r' AND (b.state = 'writing' AND b.attempt = a.attempt) IS NOT TRUE
  AND (b.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = a.attempt_id)) IS NOT TRUE
ORDER BY a.attempt_id, c.relname;
