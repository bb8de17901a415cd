-- Staging tables of a pipeline whose attempts can no longer publish: the attempt has ended, or a newer one holds its
-- batch. Those of an attempt that may still commit them outside stay until its batch is closed.
SELECT t.tablename AS name
FROM pg_tables t CROSS JOIN LATERAL regexp_match(t.tablename, '^attempt_([0-9a-f]+)(?:_deleted|_state)?$') AS m (part)
JOIN tideline.attempt ON attempt.attempt = CASE length(m.part[1]) WHEN 32 THEN m.part[1]::uuid END JOIN tideline.batch USING (batch_id)
WHERE t.schemaname = 'tideline_staging' AND batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
  AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent WHERE intent.attempt_id = attempt.attempt_id))
ORDER BY attempt.attempt_id, t.tablename;
