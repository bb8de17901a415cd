-- The intents of a batch, newest attempt first.
SELECT i.attempt_id, i.batch_id, a.attempt, a.fence, i.output, i.n_rows, i.written, i.redriven_streams, i.redriven_offsets, i.facts,
       i.filtered_by_difference, i.position, extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds
FROM tideline.intent i JOIN tideline.attempt a USING (attempt_id)
WHERE i.batch_id = %(batch_id)s ORDER BY a.fence DESC;
