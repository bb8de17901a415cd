-- The batches that a DAG run published, in order, with what became of each range; also those that have been replaced since.
SELECT batch.batch_id, batch.kind::text, a.ended_at AS published_at, topic, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.run_batch r
JOIN tideline.attempt a ON (a.batch_id, a.dag_id, a.run_id) = (r.batch_id, r.dag_id, r.run_id) AND a.outcome = 'published'
JOIN tideline.batch ON batch.batch_id = r.batch_id
JOIN tideline.batch_range br ON br.batch_id = r.batch_id
JOIN tideline.stream ON stream.stream_id = br.stream_id
WHERE (r.pipeline, r.dag_id, r.run_id) = (%(pipeline)s, %(dag_id)s, %(run_id)s)
ORDER BY batch.batch_id, topic, partition;
