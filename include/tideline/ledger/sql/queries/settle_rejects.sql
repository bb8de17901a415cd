-- Delete the rejects that the attempt has read, each by its identity, and that were not rejected again. Then correct
-- the counts of the batches that had rejected them: records that are now in the output under their batch count as
-- written, the rest as filtered.
WITH taken AS MATERIALIZED (
    SELECT r.stream_id, one.kafka_offset, one.rejected_by
    FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
    WHERE r.attempt_id = %(attempt_id)s
), gone AS (
    DELETE FROM tideline.reject USING taken
    WHERE reject.stream_id = taken.stream_id AND reject.kafka_offset = taken.kafka_offset AND reject.attempt_id = taken.rejected_by
      AND NOT EXISTS (SELECT FROM tideline.staged_reject s
                      WHERE s.attempt_id = %(attempt_id)s AND s.stream_id = reject.stream_id AND s.kafka_offset = reject.kafka_offset)
    RETURNING reject.batch_id, reject.stream_id, reject.kafka_offset
), written AS (
    SELECT w.stream_id, w.kafka_offset FROM unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[]) AS w (stream_id, kafka_offset)
), each AS (
    -- Grouped and not joined: the planner cannot know how many were deleted. If it expected a handful, a join would read all that was
    -- written once for each of them.
    SELECT stream_id, kafka_offset, max(batch_id) AS batch_id, bool_or(was_written) AS was_written
    FROM (SELECT stream_id, kafka_offset, batch_id, false AS was_written FROM gone
          UNION ALL
          SELECT stream_id, kafka_offset, NULL, true FROM written) AS both_of_it
    GROUP BY stream_id, kafka_offset
), settled AS (
    SELECT batch_id, stream_id, count(*) AS n_gone, count(*) FILTER (WHERE was_written) AS n_written
    FROM each WHERE batch_id IS NOT NULL GROUP BY batch_id, stream_id
)
UPDATE tideline.batch_range r
SET n_rejected = n_rejected - s.n_gone, n_written = r.n_written + s.n_written, n_filtered = n_filtered + s.n_gone - s.n_written
FROM settled s WHERE r.batch_id = s.batch_id AND r.stream_id = s.stream_id
RETURNING r.batch_id, r.stream_id, s.n_gone, s.n_written;
