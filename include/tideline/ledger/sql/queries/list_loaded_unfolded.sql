-- Offsets that were loaded and not folded into the state of a pipeline: the first stretch of each stream, in stream order.
SELECT s.topic, s.partition, lower(loaded.offsets) AS start_offset, upper(loaded.offsets) AS end_offset
FROM tideline.stream s LEFT JOIN tideline.state_position p USING (stream_id)
CROSS JOIN LATERAL (
    SELECT c.offsets FROM tideline.covering(s.stream_id, int8range(coalesce(p.next_offset, s.start_offset), NULL)) c
    WHERE c.batch_id IS NOT NULL ORDER BY lower(c.offsets) LIMIT 1
) AS loaded
WHERE s.pipeline = %(pipeline)s AND s.state <> 'retired'
ORDER BY s.stream_id;
