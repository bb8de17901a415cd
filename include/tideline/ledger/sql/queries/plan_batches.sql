-- Insert as many planned batches as requested. -> their ids, ascending.
INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq, supersedes, reason, outside, stateful)
SELECT %(pipeline)s, %(kind)s, %(dag_id)s, %(run_id)s, given.n + new.n, %(supersedes)s, %(reason)s, %(outside)s,
       %(stateful)s
FROM (SELECT count(*) AS n FROM tideline.batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s) AS given,
     generate_series(0, %(n_batches)s - 1) AS new (n)
ORDER BY new.n
RETURNING batch_id;
