-- The staging tables of the attempts at a batch up to a fence, oldest attempt first: of rows, of keys to delete, and of states.
SELECT t.tablename AS name
FROM tideline.attempt a JOIN pg_tables t
  ON t.tablename IN ('attempt_' || replace(a.attempt::text, '-', ''), 'attempt_' || replace(a.attempt::text, '-', '') || '_deleted',
                     'attempt_' || replace(a.attempt::text, '-', '') || '_state')
WHERE a.batch_id = %(batch_id)s AND a.fence <= %(fence)s AND t.schemaname = 'tideline_staging'
ORDER BY a.fence, t.tablename;
