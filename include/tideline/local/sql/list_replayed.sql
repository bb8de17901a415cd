-- What a run of the backfill loaded, with the batches that have nothing left because of it.
SELECT run_batch.run_id, batch.batch_id, batch.kind::text, count(*) AS n_partitions, sum(upper(offsets) - lower(offsets))::bigint AS n_offsets,
       sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected,
       (SELECT string_agg(DISTINCT old.batch_id::text, ', ') FROM tideline.batch old JOIN tideline.batch_range o USING (batch_id)
        JOIN tideline.batch_range n ON n.batch_id = batch.batch_id AND n.stream_id = o.stream_id AND n.offsets && o.offsets
        WHERE old.state = 'superseded') AS superseded
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) JOIN tideline.batch_range USING (batch_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.run_id = %(run_id)s AND batch.kind <> 'live'
GROUP BY run_batch.run_id, batch.batch_id, batch.kind
ORDER BY batch.batch_id;
