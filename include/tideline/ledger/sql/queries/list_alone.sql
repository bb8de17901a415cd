-- Which of the wanted offsets an open replay or re-drive holds: any of an outside sink; for a plan of an outside sink also one that was planned
-- for a table in the database. -> pieces, cut to the wanted ranges.
SELECT w.stream_id, lower(w.offsets * r.offsets) AS start_offset, upper(w.offsets * r.offsets) AS end_offset, r.batch_id, batch.state::text, batch.kind::text
FROM (SELECT stream_id, int8range(start_offset, end_offset) AS offsets
      FROM unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (stream_id, start_offset, end_offset)) AS w
CROSS JOIN LATERAL tideline.replaying(w.stream_id, w.offsets) r
JOIN tideline.batch ON batch.batch_id = r.batch_id
WHERE r.alone OR %(outside)s AND batch.kind IN ('replay', 'redrive') AND batch.state IN ('planned', 'writing', 'failed')
ORDER BY w.stream_id, start_offset;
