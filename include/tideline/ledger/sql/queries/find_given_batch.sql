-- Whether a DAG run was ever given this batch.
SELECT batch_id FROM tideline.run_batch
WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s AND batch_id = %(batch_id)s;
