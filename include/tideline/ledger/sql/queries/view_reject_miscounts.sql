-- Ranges that a batch owns as a whole and whose count of rejects is not the number of rejects that are kept.
SELECT batch.pipeline, batch_id, topic, partition, lower(r.offsets) AS start_offset, upper(r.offsets) AS end_offset, r.n_rejected, kept.n_kept
FROM tideline.batch JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream USING (stream_id)
CROSS JOIN LATERAL (
    SELECT count(*) AS n_kept FROM tideline.reject
    WHERE reject.stream_id = r.stream_id AND kafka_offset >= lower(r.offsets) AND kafka_offset < upper(r.offsets)
) AS kept
WHERE batch.state IN ('published', 'advanced', 'superseded')
  AND (%(pipeline)s::text IS NULL OR batch.pipeline = %(pipeline)s)
  AND r.n_rejected <> kept.n_kept
  AND EXISTS (SELECT FROM tideline.covering(r.stream_id, r.offsets) c WHERE c.batch_id = r.batch_id AND c.offsets @> r.offsets)
ORDER BY batch_id, topic, partition;
