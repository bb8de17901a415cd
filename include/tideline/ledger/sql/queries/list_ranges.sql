-- The ranges of a batch with the identity of each stream, in stream order.
SELECT stream_id, pipeline, cluster_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset, gaps_allowed,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
WHERE batch_id = %(batch_id)s
ORDER BY stream_id;
