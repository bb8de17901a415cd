-- name: list_staging
-- The staging tables of the attempts at a batch up to a fence, oldest attempt first: of rows, of keys to delete, and of states.
SELECT t.tablename AS name
FROM tideline.attempt a JOIN pg_tables t
  ON t.tablename IN ('attempt_' || replace(a.attempt::text, '-', ''), 'attempt_' || replace(a.attempt::text, '-', '') || '_deleted',
                     'attempt_' || replace(a.attempt::text, '-', '') || '_state')
WHERE a.batch_id = %(batch_id)s AND a.fence <= %(fence)s AND t.schemaname = 'tideline_staging'
ORDER BY a.fence, t.tablename;

-- name: drop_staging
-- Drop the staging table of an attempt, if it still exists. It may belong to another role.
SELECT tideline.drop_staging(%(table)s);

-- name: discard_rejected
-- Delete the staged rows of rejected records: if any row of a record was rejected, the whole record is a reject. Only
-- rows of the winning tasks are deleted, since only these count.
DELETE FROM {staging} s USING tideline.staged_reject r
WHERE r.attempt_id = %(attempt_id)s AND r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
  AND s.tideline_task = ANY (%(tasks)s);

-- name: list_written
-- List the offsets of a re-drive that have rows, per stream. Each may belong to another batch, so the ledger needs them
-- one by one.
SELECT tideline_stream AS stream_id, array_agg(DISTINCT kafka_offset) AS offsets
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
