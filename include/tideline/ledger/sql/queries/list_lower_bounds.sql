-- Where the ranges of batches begin, by stream.
SELECT stream_id, batch_id, lower(offsets) AS start_offset FROM tideline.batch_range
WHERE batch_id = ANY (%(batch_ids)s)
ORDER BY stream_id, start_offset;
