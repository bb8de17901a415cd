-- published -> advanced: of the batches named, live ones that every head has passed, and all others. -> which. A stream that has retired is in
-- nobody's way.
UPDATE tideline.batch SET state = 'advanced'
WHERE batch_id = ANY (%(batch_ids)s) AND state = 'published' AND NOT (kind = 'live' AND EXISTS (
    SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_range.batch_id = batch.batch_id AND stream.next_offset < upper(offsets) AND stream.state <> 'retired'))
RETURNING batch_id;
