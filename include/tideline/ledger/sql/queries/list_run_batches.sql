-- The batches that a DAG run works on, in order; none before its first plan. Without abandoned batches: no run works on
-- those.
SELECT batch_id FROM tideline.run_batch JOIN tideline.batch USING (batch_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.dag_id = %(dag_id)s AND run_batch.run_id = %(run_id)s AND batch.state <> 'abandoned'
ORDER BY position;
