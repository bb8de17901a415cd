-- List the batches of one run of the backfill: replays, and offsets that it loaded for the first time.
SELECT batch.batch_id, batch.kind::text, sum(upper(offsets) - lower(offsets))::bigint AS n_offsets,
       sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) JOIN tideline.batch_range USING (batch_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.run_id = %(run_id)s AND batch.kind <> 'live' AND batch.state = 'advanced'
GROUP BY batch.batch_id, batch.kind
ORDER BY batch.batch_id;
