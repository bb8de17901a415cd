-- -> planned.
INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, supersedes, reason)
SELECT %(pipeline)s, %(kind)s, %(dag_id)s, %(run_id)s, count(*), %(supersedes)s, %(reason)s
FROM tideline.batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s
RETURNING batch_id;
