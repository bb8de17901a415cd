-- The batches that a DAG run works on, in order; none before its first plan.
SELECT batch_id FROM tideline.run_batch
WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s
ORDER BY position;
