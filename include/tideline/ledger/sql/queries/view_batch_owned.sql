-- The offsets that a batch owns in the output now: fewer than it has written if a replay has replaced some.
SELECT topic, partition, lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset
FROM tideline.batch_range r JOIN tideline.stream USING (stream_id), LATERAL tideline.covering(r.stream_id, r.offsets) c
WHERE r.batch_id = %(batch_id)s AND c.batch_id = r.batch_id
ORDER BY topic, partition, r.stream_id, start_offset;
