-- Published ranges whose counts do not add up: records without an outcome, or offsets that were not read. Constraints
-- keep this empty, so there is no index for it: this reads all ranges, once.
SELECT batch.pipeline, batch_id, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.batch_range JOIN tideline.batch USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE batch.state IN ('published', 'advanced', 'superseded')
  AND (%(pipeline)s::text IS NULL OR batch.pipeline = %(pipeline)s)
  AND (n_read = n_written + n_rejected + n_filtered AND n_read + n_gap = upper(offsets) - lower(offsets)) IS NOT TRUE
ORDER BY batch_id, topic, partition;
