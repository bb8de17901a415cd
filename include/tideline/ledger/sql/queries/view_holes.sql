-- The offsets that are in nobody's output, each with what it is, why, and who said so.
SELECT stream.stream_id, topic, partition, lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset, c.hole::text, c.reason, c.decided_by, c.recorded_at
FROM tideline.stream JOIN tideline.coverage c USING (stream_id)
WHERE pipeline = %(pipeline)s AND hole IS NOT NULL
ORDER BY topic, partition, stream.stream_id, start_offset;
