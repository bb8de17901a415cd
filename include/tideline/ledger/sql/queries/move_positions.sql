-- Move the positions of a batch's streams to the ends of its ranges, with the largest event times that were folded. Triggers keep how they were before.
UPDATE tideline.state_position p
SET next_offset = upper(r.offsets), max_time = greatest(p.max_time, t.max_time), version = p.version + 1, batch_id = r.batch_id
FROM tideline.batch_range r LEFT JOIN unnest(%(stream_ids)s::bigint[], %(max_times)s::timestamptz[]) AS t (stream_id, max_time) USING (stream_id)
WHERE r.batch_id = %(batch_id)s AND p.stream_id = r.stream_id;
INSERT INTO tideline.state_position (stream_id, pipeline, next_offset, max_time, version, batch_id)
SELECT stream_id, pipeline, upper(offsets), max_time, 1, batch_id
FROM tideline.batch_range r JOIN tideline.stream USING (stream_id)
LEFT JOIN unnest(%(stream_ids)s::bigint[], %(max_times)s::timestamptz[]) AS t (stream_id, max_time) USING (stream_id)
WHERE batch_id = %(batch_id)s AND NOT EXISTS (SELECT FROM tideline.state_position p WHERE p.stream_id = r.stream_id)
ORDER BY stream_id;
