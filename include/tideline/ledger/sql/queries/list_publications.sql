-- The counts of each range of the given published batches, in the order of publication. Includes batches that were
-- replaced since.
SELECT batch_id, batch.kind::text, batch.attempt, published_at, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.outbox
JOIN tideline.batch USING (batch_id)
JOIN tideline.batch_range USING (batch_id)
JOIN tideline.stream USING (stream_id)
WHERE batch_id = ANY (%(batch_ids)s)
ORDER BY published_at, batch_id, topic, partition;
