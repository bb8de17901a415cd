-- Add batches to those that a DAG run works on, in order, after those that it already has. Batches that it already has
-- keep their positions.
INSERT INTO tideline.run_batch (pipeline, dag_id, run_id, position, batch_id)
SELECT %(pipeline)s, %(dag_id)s, %(run_id)s, given.n + row_number() OVER (ORDER BY new.place) - 1, new.batch_id
FROM (SELECT count(*) AS n FROM tideline.run_batch WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s) AS given,
     (SELECT batch_id, min(place) AS place FROM unnest(%(batch_ids)s::bigint[]) WITH ORDINALITY AS b (batch_id, place) GROUP BY batch_id) AS new
WHERE NOT EXISTS (
    SELECT FROM tideline.run_batch old
    WHERE old.pipeline = %(pipeline)s AND old.dag_id = %(dag_id)s AND old.run_id = %(run_id)s AND old.batch_id = new.batch_id);
