-- Open live batches and backfills that have reserved offsets of a stream within a range, oldest first.
SELECT batch_id FROM tideline.reserving(%(stream_id)s, int8range(%(start)s, %(end)s)) JOIN tideline.batch USING (batch_id)
WHERE state IN ('planned', 'writing', 'failed')
ORDER BY batch_id;
