-- Staging tables of a pipeline whose attempts can no longer publish: the attempt has ended, or a newer one holds its
-- batch. Those of an attempt that may still commit them outside stay until its batch is closed.
SELECT t.tablename AS name
FROM pg_tables t CROSS JOIN LATERAL regexp_match(t.tablename, '^batch_(\d+)_attempt_(\d+)(?:_deleted|_state)?$') AS m (part)
JOIN tideline.batch ON batch.batch_id = m.part[1]::bigint
WHERE t.schemaname = 'tideline_staging' AND batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.fence = m.part[2]::int)
  AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (
    SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE intent.batch_id = batch.batch_id AND attempt.fence = m.part[2]::int))
ORDER BY t.tablename;
