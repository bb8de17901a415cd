-- One batch as it was planned, with its state.
SELECT batch_id, pipeline, kind::text, state::text, dag_id, run_id FROM tideline.batch WHERE batch_id = %(batch_id)s;
