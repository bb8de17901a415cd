-- name: list_before
-- The open batches that are folded before a stateful batch: each has lower offsets of one of its streams. `silent_seconds` is the time since the last
-- sign of it: a heartbeat, the end of its last attempt, or its plan.
SELECT other.batch_id, other.state::text, other.dag_id, other.run_id, newest.task_id, newest.try_number, newest.host, newest.pid,
       extract(epoch FROM clock_timestamp() - coalesce(newest.ended_at, newest.heartbeat_at, other.planned_at))::float8 AS silent_seconds
FROM tideline.batch other LEFT JOIN tideline.attempt newest ON newest.attempt = other.attempt
WHERE other.pipeline = %(pipeline)s AND other.state IN ('planned', 'writing', 'failed') AND EXISTS (
    SELECT FROM tideline.batch_range theirs JOIN tideline.batch_range own USING (stream_id)
    WHERE theirs.batch_id = other.batch_id AND own.batch_id = %(batch_id)s AND lower(theirs.offsets) < lower(own.offsets))
ORDER BY other.batch_id;

-- name: list_lower_bounds
-- Where the ranges of batches begin, by stream.
SELECT stream_id, batch_id, lower(offsets) AS start_offset FROM tideline.batch_range
WHERE batch_id = ANY (%(batch_ids)s)
ORDER BY stream_id, start_offset;

-- name: list_loaded_unfolded
-- Offsets that were loaded and not folded into the state of a pipeline: the first stretch of each stream, in stream order.
SELECT s.topic, s.partition, lower(loaded.offsets) AS start_offset, upper(loaded.offsets) AS end_offset
FROM tideline.stream s LEFT JOIN tideline.state_position p USING (stream_id)
CROSS JOIN LATERAL (
    SELECT c.offsets FROM tideline.covering(s.stream_id, int8range(coalesce(p.next_offset, s.start_offset), NULL)) c
    WHERE c.batch_id IS NOT NULL ORDER BY lower(c.offsets) LIMIT 1
) AS loaded
WHERE s.pipeline = %(pipeline)s AND s.state <> 'retired'
ORDER BY s.stream_id;

-- name: list_rewound
-- Offsets that a rewind has left to be loaded again and that no batch has reserved, in stream order.
SELECT c.stream_id, lower(piece) AS start_offset, upper(piece) AS end_offset
FROM tideline.coverage c JOIN tideline.stream USING (stream_id)
CROSS JOIN LATERAL (
    SELECT coalesce(range_agg(r.offsets::int8range), '{}') AS offsets FROM tideline.reserving(c.stream_id, c.offsets) r
) AS reserved
CROSS JOIN LATERAL unnest(int8multirange(c.offsets::int8range) - reserved.offsets) AS piece
WHERE pipeline = %(pipeline)s AND hole = 'rewound'
ORDER BY c.stream_id, lower(piece);
