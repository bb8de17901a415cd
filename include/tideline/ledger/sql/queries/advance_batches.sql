-- published -> advanced, for the given batches: live batches that every head has passed, and batches of all other
-- kinds. Retired streams do not count. -> the ids of the batches that changed.
UPDATE tideline.batch SET state = 'advanced'
WHERE batch_id = ANY (%(batch_ids)s) AND state = 'published' AND NOT (kind = 'live' AND EXISTS (
    SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_range.batch_id = batch.batch_id AND stream.next_offset < upper(offsets) AND stream.state <> 'retired'))
RETURNING batch_id;
