-- name: lock_redriven
-- The rejects that a re-drive takes and that are still there, locked until it has published. The statement after the
-- lock compares the remaining rejects one by one with those that the attempt has read. -> n_read: how many it has read;
-- n_gone: how many of these are deleted or are other rejects now; n_unread: how many are there that it has not read;
-- n_undecoded: of how many streams not all rejects that were read were decoded.
SELECT FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset)
WHERE redrive.batch_id = %(batch_id)s ORDER BY stream_id, kafka_offset FOR UPDATE OF reject;
WITH taken AS MATERIALIZED (
    SELECT stream_id, one.kafka_offset, one.rejected_by
    FROM tideline.staged_redrive s CROSS JOIN LATERAL unnest(s.offsets, s.rejected_by) AS one (kafka_offset, rejected_by)
    WHERE s.attempt_id = %(attempt_id)s
), left_over AS MATERIALIZED (
    SELECT stream_id, kafka_offset, reject.attempt_id AS rejected_by
    FROM tideline.reject JOIN tideline.redrive USING (stream_id, kafka_offset) WHERE redrive.batch_id = %(batch_id)s
)
SELECT (SELECT count(*) FROM taken) AS n_read,
       (SELECT count(*) FROM (TABLE taken EXCEPT TABLE left_over) AS gone) AS n_gone,
       (SELECT count(*) FROM (TABLE left_over EXCEPT TABLE taken) AS unread) AS n_unread,
       (SELECT count(*) FROM (SELECT stream_id, count(*) AS n FROM taken GROUP BY stream_id) AS t
        FULL JOIN (SELECT stream_id, sum(n_read) AS n FROM tideline.staged_count WHERE attempt_id = %(attempt_id)s GROUP BY stream_id) AS c USING (stream_id)
        WHERE t.n IS DISTINCT FROM c.n) AS n_undecoded;

-- name: keep_rejects
-- Keep the rejects that were re-driven and rejected again, with their new step and reason. Each now names this attempt
-- as the one that rejected it, so from now on it is a different reject.
UPDATE tideline.reject SET step = s.step, reason = s.reason, attempt_id = s.attempt_id, rejected_at = now()
FROM tideline.staged_reject s
JOIN (SELECT r.stream_id, one.kafka_offset, one.rejected_by
      FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
      WHERE r.attempt_id = %(attempt_id)s) AS taken USING (stream_id, kafka_offset)
WHERE s.attempt_id = %(attempt_id)s
  AND reject.stream_id = s.stream_id AND reject.kafka_offset = s.kafka_offset AND reject.attempt_id = taken.rejected_by;

-- name: settle_rejects
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

-- name: list_rejects_to_redrive
-- Rejects of a pipeline: of one batch, of reasons that contain a text, or all. Without those that an open re-drive has
-- taken. They are cut into parts of at most `size` rejects. No part holds two incarnations of a topic that was created
-- again. -> the range of offsets for each part and stream. Reads all rejects of the pipeline if no batch is given, but
-- returns none of them to the client: there may be millions.
WITH found AS (
    SELECT reject.stream_id, reject.kafka_offset,
           dense_rank() OVER (PARTITION BY stream.topic, stream.partition ORDER BY reject.stream_id) AS incarnation
    FROM tideline.reject JOIN tideline.stream USING (stream_id)
    WHERE stream.pipeline = %(pipeline)s
      AND (%(of_batch)s::bigint IS NULL OR reject.batch_id = %(of_batch)s)
      AND (%(reason_like)s::text IS NULL OR strpos(lower(reject.reason), lower(%(reason_like)s)) > 0)
      AND NOT EXISTS (SELECT FROM tideline.redrive d JOIN tideline.batch USING (batch_id)
                      WHERE d.stream_id = reject.stream_id AND d.kafka_offset = reject.kafka_offset AND state IN ('planned', 'writing', 'failed'))
), numbered AS (
    SELECT *, (row_number() OVER (PARTITION BY incarnation ORDER BY stream_id, kafka_offset) - 1) / %(size)s AS part FROM found
)
SELECT incarnation, part, stream_id, min(kafka_offset) AS start_offset, max(kafka_offset) + 1 AS end_offset
FROM numbered
GROUP BY incarnation, part, stream_id
ORDER BY incarnation, part, stream_id;
