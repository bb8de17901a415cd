-- The batches that a DAG run was given, in order. A run of the DAG `replay` may have batches of any pipeline.
SELECT batch_id, b.pipeline, b.kind::text, b.state::text, b.planned_at
FROM tideline.pipeline p
JOIN tideline.run_batch r ON r.pipeline = p.pipeline AND r.dag_id = %(dag_id)s AND r.run_id = %(run_id)s
JOIN tideline.batch b USING (batch_id)
ORDER BY r.position, batch_id;
