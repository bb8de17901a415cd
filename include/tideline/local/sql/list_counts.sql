-- List the offset ranges that a DAG run loaded, by partition, with their counts.
SELECT partition, min(lower(offsets)) AS start_offset, max(upper(offsets)) AS end_offset, sum(n_read)::bigint AS n_read,
       sum(n_written)::bigint AS n_written, sum(n_rejected)::bigint AS n_rejected, sum(n_filtered)::bigint AS n_filtered
FROM tideline.run_batch JOIN tideline.batch_range USING (batch_id) JOIN tideline.stream USING (stream_id)
WHERE run_batch.pipeline = %(pipeline)s AND dag_id = %(pipeline)s AND run_id = %(run_id)s
GROUP BY partition ORDER BY partition;
