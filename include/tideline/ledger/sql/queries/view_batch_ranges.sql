-- The ranges of a batch with their counts, which are null until it is published, and with what the broker reported when
-- the batch was planned and after it was read.
SELECT topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset, gaps_allowed,
       n_read, n_written, n_rejected, n_filtered, n_gap, n_bytes, first_read, last_read,
       planned_log_start, planned_end, published_log_start, published_end
FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
WHERE batch_id = %(batch_id)s
ORDER BY topic, partition, stream_id;
