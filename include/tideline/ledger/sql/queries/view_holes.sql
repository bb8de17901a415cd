-- The holes of a pipeline: offsets that are not in the output, each with its kind, the reason, and who decided it.
SELECT stream.stream_id, topic, partition, lower(c.offsets) AS start_offset, upper(c.offsets) AS end_offset, c.hole::text, c.reason, c.decided_by, c.recorded_at
FROM tideline.stream JOIN tideline.coverage c USING (stream_id)
WHERE pipeline = %(pipeline)s AND hole IS NOT NULL
ORDER BY topic, partition, stream.stream_id, start_offset;
