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
