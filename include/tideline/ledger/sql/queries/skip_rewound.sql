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
