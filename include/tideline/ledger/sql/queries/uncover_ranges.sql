-- Remove a batch's ranges from the coverage of their owners. What these own outside of the ranges stays theirs. Rows
-- are locked first: otherwise two backfills of one hole would both replace the same row, and the second one would not
-- see what the first had left of it.
SELECT FROM tideline.coverage WHERE coverage_id IN (
    SELECT c.coverage_id FROM tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) c WHERE r.batch_id = %(batch_id)s)
ORDER BY coverage_id FOR UPDATE;
WITH gone AS (
    DELETE FROM tideline.coverage c USING tideline.batch_range r, LATERAL tideline.covering(r.stream_id, r.offsets) found
    WHERE r.batch_id = %(batch_id)s AND c.coverage_id = found.coverage_id
    RETURNING c.*, r.offsets AS taken
)
INSERT INTO tideline.coverage (stream_id, offsets, batch_id, hole, reason, decided_by, recorded_at, decided_in)
SELECT stream_id, piece, batch_id, hole, reason, decided_by, recorded_at, decided_in
FROM gone, LATERAL unnest(int8multirange(offsets::int8range) - int8multirange(taken::int8range)) AS piece;
