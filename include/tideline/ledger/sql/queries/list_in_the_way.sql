-- The unfinished batches of a DAG run, each with the task that last claimed it.
SELECT batch.batch_id, batch.state::text, attempt.dag_id, attempt.run_id, attempt.task_id, attempt.try_number, attempt.problem
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.dag_id = %(dag_id)s AND run_batch.run_id = %(run_id)s
  AND batch.state NOT IN ('advanced', 'superseded', 'abandoned')
ORDER BY batch.batch_id;
