-- Offsets that a rewind has left to be loaded again and that no batch has reserved, in stream order.
SELECT c.stream_id, lower(piece) AS start_offset, upper(piece) AS end_offset
FROM tideline.coverage c JOIN tideline.stream USING (stream_id)
CROSS JOIN LATERAL (
    SELECT coalesce(range_agg(r.offsets::int8range), '{}') AS offsets FROM tideline.reserving(c.stream_id, c.offsets) r
) AS reserved
CROSS JOIN LATERAL unnest(int8multirange(c.offsets::int8range) - reserved.offsets) AS piece
WHERE pipeline = %(pipeline)s AND hole = 'rewound'
ORDER BY c.stream_id, lower(piece);
