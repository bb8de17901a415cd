-- Remove a batch's ranges from the coverage of their owners. What these own outside of the ranges stays theirs. Rows
-- are locked first: otherwise two backfills of one hole would both replace the same row, and the second one would not
-- see what the first had left of it.
SELECT FROM tideline.coverage c JOIN tideline.batch_range r
  ON int8range(c.stream_id, c.stream_id, '[]') && int8range(r.stream_id, r.stream_id, '[]') AND c.offsets::int8range && r.offsets::int8range
WHERE r.batch_id = %(batch_id)s ORDER BY c.coverage_id FOR UPDATE OF c;
WITH gone AS (
    DELETE FROM tideline.coverage c USING tideline.batch_range r
    WHERE r.batch_id = %(batch_id)s
      AND int8range(c.stream_id, c.stream_id, '[]') && int8range(r.stream_id, r.stream_id, '[]') AND c.offsets::int8range && r.offsets::int8range
    RETURNING c.*, r.offsets AS taken
)
INSERT INTO tideline.coverage (stream_id, offsets, batch_id, hole, reason, decided_by, recorded_at, decided_in)
SELECT stream_id, piece, batch_id, hole, reason, decided_by, recorded_at, decided_in
FROM gone, LATERAL unnest(int8multirange(offsets::int8range) - int8multirange(taken::int8range)) AS piece;
