-- All batches that a DAG run was ever given, including those that were abandoned since.
SELECT batch_id FROM tideline.run_batch
WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s ORDER BY batch_id;
