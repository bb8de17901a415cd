-- Staging tables of a pipeline whose attempts can no longer publish: the attempt has ended, or a newer one holds its
-- batch.
SELECT t.tablename AS name
FROM pg_tables t CROSS JOIN LATERAL regexp_match(t.tablename, '^batch_(\d+)_attempt_(\d+)$') AS m (part)
JOIN tideline.batch ON batch.batch_id = m.part[1]::bigint
WHERE t.schemaname = 'tideline_staging' AND batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.fence = m.part[2]::int)
ORDER BY t.tablename;
