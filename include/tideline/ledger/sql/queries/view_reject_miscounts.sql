-- Ranges that a batch owns as a whole and whose count of rejects is not the number of its rejects that are kept; and
-- rejects at offsets that their batch does not own. Reads every range and every reject, each once: there is no index
-- that finds a broken law. The owner is looked up only for the few that do not fit.
WITH wrong AS MATERIALIZED (
    SELECT batch_id, stream_id, sum(n_kept) AS n_kept
    FROM (SELECT batch_id, stream_id, n_rejected, 0 AS n_kept FROM tideline.batch_range JOIN tideline.batch USING (batch_id)
          WHERE n_rejected > 0 AND (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
          UNION ALL
          SELECT batch_id, stream_id, 0, 1 FROM tideline.reject JOIN tideline.stream USING (stream_id)
          WHERE %(pipeline)s::text IS NULL OR pipeline = %(pipeline)s) AS both_sides
    GROUP BY batch_id, stream_id HAVING sum(n_rejected) <> sum(n_kept)
), strangers AS MATERIALIZED (
    SELECT batch_id, stream_id, count(*) AS n_strangers, min(kafka_offset) AS first, max(kafka_offset) AS last FROM tideline.reject JOIN tideline.stream USING (stream_id)
    WHERE (%(pipeline)s::text IS NULL OR pipeline = %(pipeline)s)
      AND NOT EXISTS (SELECT FROM tideline.coverage c
                      WHERE c.batch_id = reject.batch_id AND c.stream_id = reject.stream_id AND c.offsets @> reject.kafka_offset)
    GROUP BY batch_id, stream_id
)
SELECT stream.pipeline, batch_id, topic, partition, coalesce(lower(r.offsets), first) AS start_offset, coalesce(upper(r.offsets), last + 1) AS end_offset,
       r.n_rejected, coalesce(wrong.n_kept, r.n_rejected) AS n_kept, coalesce(n_strangers, 0) AS n_strangers
FROM wrong FULL JOIN strangers USING (batch_id, stream_id)
LEFT JOIN tideline.batch_range r USING (batch_id, stream_id) JOIN tideline.stream USING (stream_id)
WHERE n_strangers > 0
   OR EXISTS (SELECT FROM tideline.coverage c WHERE c.batch_id = r.batch_id AND c.stream_id = r.stream_id AND c.offsets @> r.offsets)
ORDER BY batch_id, topic, partition;
