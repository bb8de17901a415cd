-- One batch, without its ranges; no row if there is no such batch.
SELECT batch_id, pipeline, kind::text, state::text, reason, dag_id, run_id, supersedes, planned_at, fence AS n_attempts
FROM tideline.batch WHERE batch_id = %(batch_id)s;
