-- Batches that are not published yet, of all runs: live ones first, each kind oldest first. `for_heads` marks those
-- without which a head cannot move on: live ones, and backfills of offsets that the head has not passed. The others
-- matter only to the run that requested them.
SELECT batch_id, kind::text, state::text, dag_id, run_id, kind = 'live' OR kind = 'backfill' AND EXISTS (
    SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_range.batch_id = batch.batch_id AND upper(offsets) > next_offset AND stream.state <> 'retired') AS for_heads
FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state IN ('planned', 'writing', 'failed')
ORDER BY batch.kind, batch_id;
