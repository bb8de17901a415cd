-- The batches that a DAG run published, in order, with what became of each range; also those that have been replaced since.
SELECT batch.batch_id, batch.kind::text, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.run_batch
JOIN tideline.batch USING (batch_id)
JOIN tideline.attempt ON (attempt.batch_id, attempt.dag_id, attempt.run_id) = (batch.batch_id, run_batch.dag_id, run_batch.run_id)
JOIN tideline.batch_range USING (batch_id)
JOIN tideline.stream USING (stream_id)
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.dag_id = %(dag_id)s AND run_batch.run_id = %(run_id)s AND attempt.outcome = 'published'
ORDER BY batch.batch_id, topic, partition;
