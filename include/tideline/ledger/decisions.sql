-- name: set_reason
-- Set the reason that is stored in every event that this transaction causes.
SELECT set_config('tideline.reason', %(reason)s, true);

-- name: list_owners
-- What holds the wanted offsets: the batch or hole in the coverage, or the open batch that has reserved them. ->
-- pieces, cut to the wanted ranges.
WITH wanted AS (
    SELECT stream_id, int8range(start_offset, end_offset) AS offsets
    FROM unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (stream_id, start_offset, end_offset)
)
SELECT w.stream_id, lower(w.offsets * c.offsets) AS start_offset, upper(w.offsets * c.offsets) AS end_offset,
       c.batch_id, batch.state::text, batch.kind::text, c.hole::text
FROM wanted w, LATERAL tideline.covering(w.stream_id, w.offsets) c LEFT JOIN tideline.batch ON batch.batch_id = c.batch_id
UNION ALL
SELECT w.stream_id, lower(w.offsets * r.offsets), upper(w.offsets * r.offsets), r.batch_id, batch.state::text, batch.kind::text, NULL
FROM wanted w, LATERAL tideline.reserving(w.stream_id, w.offsets) r JOIN tideline.batch ON batch.batch_id = r.batch_id
WHERE batch.state IN ('planned', 'writing', 'failed')
ORDER BY stream_id, start_offset;

-- name: list_alone
-- Which of the wanted offsets an open replay or re-drive holds: any of an outside sink; for a plan of an outside sink also one that was planned
-- for a table in the database. -> pieces, cut to the wanted ranges.
SELECT w.stream_id, lower(w.offsets * r.offsets) AS start_offset, upper(w.offsets * r.offsets) AS end_offset, r.batch_id, batch.state::text, batch.kind::text
FROM (SELECT stream_id, int8range(start_offset, end_offset) AS offsets
      FROM unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (stream_id, start_offset, end_offset)) AS w
CROSS JOIN LATERAL tideline.replaying(w.stream_id, w.offsets) r
JOIN tideline.batch ON batch.batch_id = r.batch_id
WHERE r.alone OR %(outside)s AND batch.kind IN ('replay', 'redrive') AND batch.state IN ('planned', 'writing', 'failed')
ORDER BY w.stream_id, start_offset;

-- name: list_open_on_streams
-- Open batches of the given kinds that hold offsets in one of the wanted ranges, each of one stream. Oldest first.
SELECT DISTINCT batch_id FROM tideline.batch JOIN tideline.batch_range USING (batch_id)
JOIN unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (stream_id, start_offset, end_offset) USING (stream_id)
WHERE state IN ('planned', 'writing', 'failed') AND kind::text = ANY (%(kinds)s) AND offsets::int8range && int8range(w.start_offset, w.end_offset)
ORDER BY batch_id;

-- name: record_hole
-- Insert a hole: offsets that an operator, or a declared policy, decided not to load.
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by)
VALUES (%(stream_id)s, int8range(%(start)s, %(end)s), %(hole)s, %(reason)s, coalesce(%(decided_by)s, current_setting('tideline.actor')));

-- name: skip_rewound
-- Give up offsets that a rewind has left to be loaded again: nothing accounts for them until a hole is left over them in the same transaction. What the
-- rewind has left beside them stays.
WITH gone AS (
    DELETE FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(%(stream_id)s, %(stream_id)s, '[]')
      AND offsets::int8range && int8range(%(start)s, %(end)s) AND hole = 'rewound'
    RETURNING *
)
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, recorded_at, decided_in)
SELECT stream_id, piece, hole, reason, decided_by, recorded_at, decided_in
FROM gone, LATERAL unnest(int8multirange(offsets::int8range) - int8multirange(int8range(%(start)s, %(end)s))) AS piece;

-- name: resume_stream
-- stopped -> active, by an operator's decision. Until the log has passed what was planned or read, it may end at
-- accepted_end.
UPDATE tideline.stream SET state = 'active', stopped_because = NULL, accepted_end = %(accepted_end)s,
    leader_epoch = coalesce(%(leader_epoch)s, leader_epoch)
WHERE stream_id = %(stream_id)s AND state = 'stopped';

-- name: bring_back_stream
-- retired -> stopped: a topic that an operator had given up exists again. The head does not move.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s WHERE stream_id = %(stream_id)s AND state = 'retired';

-- name: forget_cut
-- Forget the accepted end of a truncated log. The log has again passed what was planned or read, so the next truncation
-- is a new one.
UPDATE tideline.stream SET accepted_end = NULL WHERE stream_id = %(stream_id)s AND accepted_end IS NOT NULL;

-- name: retire_stream
-- active | stopped -> retired: the topic or partition is deleted. Its history stays.
UPDATE tideline.stream SET state = 'retired', stopped_because = NULL WHERE stream_id = %(stream_id)s AND state <> 'retired';

-- name: set_retired
-- Take a pipeline out of sight, or bring it back. Touches no row where it is so already. A pipeline that retires must have no open batches, and the
-- transaction needs a reason.
UPDATE tideline.pipeline SET retired_at = CASE WHEN %(retired)s THEN now() END
WHERE pipeline = %(pipeline)s AND (retired_at IS NOT NULL) <> %(retired)s;
