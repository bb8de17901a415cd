-- Make a batch part of what a DAG run works on.
INSERT INTO tideline.run_batch (pipeline, dag_id, run_id, position, batch_id)
VALUES (%(pipeline)s, %(dag_id)s, %(run_id)s, %(position)s, %(batch_id)s);
