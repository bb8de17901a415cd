-- One batch as it was planned, with its state and newest attempt.
SELECT batch_id, pipeline, kind::text, state::text, attempt, fence, outside, stateful, dag_id, run_id FROM tideline.batch WHERE batch_id = %(batch_id)s;
