-- List the failed batches of a DAG run, with the first line of the problem of their last attempt.
SELECT batch.batch_id, batch.state::text, split_part(attempt.problem, E'\n', 1) AS problem,
       (SELECT sum(upper(offsets) - lower(offsets)) FROM tideline.batch_range WHERE batch_range.batch_id = batch.batch_id)::bigint AS n_offsets
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.run_id = %(run_id)s AND batch.state = 'failed'
ORDER BY batch.batch_id;
