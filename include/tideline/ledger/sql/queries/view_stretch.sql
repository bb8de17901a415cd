-- What accounts for a stretch of one stream, piece by piece: batches with their counts, holes with their reasons, and open
-- batches.
SELECT lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset, c.batch_id, c.hole::text, c.reason, c.decided_by, c.recorded_at,
       b.kind::text, b.state::text, r.n_read, r.n_rejected, r.n_gap
FROM tideline.covering(%(stream_id)s, int8range(%(start)s, %(end)s)) c
LEFT JOIN tideline.batch b ON b.batch_id = c.batch_id
LEFT JOIN tideline.batch_range r ON r.batch_id = c.batch_id AND r.stream_id = c.stream_id
UNION ALL
SELECT lower(r.offsets), upper(r.offsets), r.batch_id, NULL, b.reason, NULL, b.planned_at, b.kind::text, b.state::text, NULL, NULL, NULL
FROM tideline.reserving(%(stream_id)s, int8range(%(start)s, %(end)s)) r JOIN tideline.batch b USING (batch_id)
WHERE b.state IN ('planned', 'writing', 'failed')
ORDER BY start_offset
LIMIT %(limit)s;
