-- List the batches that a DAG run loaded.
SELECT batch_id FROM tideline.run_batch WHERE pipeline = %(pipeline)s AND run_id = %(run_id)s ORDER BY batch_id;
