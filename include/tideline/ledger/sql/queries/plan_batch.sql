-- -> planned.
INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq)
VALUES (%(pipeline)s, %(kind)s, %(dag_id)s, %(run_id)s, %(seq)s)
RETURNING batch_id;
