-- Make a batch part of what a DAG run works on, behind what it has.
INSERT INTO tideline.run_batch (pipeline, dag_id, run_id, position, batch_id)
SELECT %(pipeline)s, %(dag_id)s, %(run_id)s, count(*), %(batch_id)s
FROM tideline.run_batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s
ON CONFLICT (pipeline, dag_id, run_id, batch_id) DO NOTHING;
