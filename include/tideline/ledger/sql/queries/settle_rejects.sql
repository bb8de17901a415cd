-- Rejects that were re-driven and not rejected again go, and the counts of the batches that had rejected them follow: what stands in the output
-- under their batch was written, the rest was filtered.
WITH gone AS (
    DELETE FROM tideline.reject USING tideline.redrive d
    WHERE d.batch_id = %(batch_id)s AND reject.stream_id = d.stream_id AND reject.kafka_offset = d.kafka_offset
      AND NOT EXISTS (SELECT FROM tideline.staged_reject s
                      WHERE s.attempt_id = %(attempt_id)s AND s.stream_id = reject.stream_id AND s.kafka_offset = reject.kafka_offset)
    RETURNING reject.batch_id, reject.stream_id, reject.kafka_offset
), written AS (
    SELECT w.stream_id, w.kafka_offset FROM unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[]) AS w (stream_id, kafka_offset)
), settled AS (
    SELECT gone.batch_id, gone.stream_id, count(*) AS n_gone, count(written.kafka_offset) AS n_written
    FROM gone LEFT JOIN written USING (stream_id, kafka_offset) GROUP BY gone.batch_id, gone.stream_id
)
UPDATE tideline.batch_range r
SET n_rejected = n_rejected - s.n_gone, n_written = r.n_written + s.n_written, n_filtered = n_filtered + s.n_gone - s.n_written
FROM settled s WHERE r.batch_id = s.batch_id AND r.stream_id = s.stream_id
RETURNING r.batch_id, r.stream_id, s.n_gone, s.n_written;
