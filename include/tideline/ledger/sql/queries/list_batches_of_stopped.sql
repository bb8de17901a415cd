-- Open live batches with a range of a stopped or retired stream. They cannot be written as they were planned.
SELECT DISTINCT batch_id FROM tideline.batch JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE batch.pipeline = %(pipeline)s AND batch.state IN ('planned', 'writing', 'failed') AND batch.kind = 'live' AND stream.state <> 'active'
ORDER BY batch_id;
