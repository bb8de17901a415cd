-- The counts of each range of the given published batches, in the order of publication, and when the attempt that published
-- began and ended; null if upkeep has deleted it. Includes batches that were replaced since.
SELECT batch.batch_id, batch.kind::text, batch.attempt, published_at, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       batch_range.n_read, n_written, n_rejected, n_filtered, n_gap, started_at, ended_at
FROM tideline.outbox
JOIN tideline.batch USING (batch_id)
JOIN tideline.batch_range USING (batch_id)
JOIN tideline.stream USING (stream_id)
LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE batch.batch_id = ANY (%(batch_ids)s)
ORDER BY published_at, batch.batch_id, topic, partition;
