-- One batch, without its ranges, and what it has folded into the state of its pipeline; no row if there is no such batch.
SELECT b.batch_id, b.identity, b.pipeline, b.kind::text, b.state::text, b.reason, b.dag_id, b.run_id, b.supersedes, b.planned_at,
       b.fence AS n_attempts, s.n_keys AS n_folded_keys, s.n_expired AS n_expired_rows, s.processor, s.undo
FROM tideline.batch b LEFT JOIN tideline.state_batch s USING (batch_id) WHERE b.batch_id = %(batch_id)s;
