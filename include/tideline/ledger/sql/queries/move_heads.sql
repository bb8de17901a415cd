-- Compare-and-swap: each head of a batch moves from the lower end of its range to the upper. -> the streams that moved. Those that have retired
-- stay where they are.
WITH locked AS MATERIALIZED (
    SELECT stream_id, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s AND stream.state <> 'retired' ORDER BY stream_id FOR NO KEY UPDATE OF stream
)
UPDATE tideline.stream SET next_offset = locked.end_offset
FROM locked
WHERE stream.stream_id = locked.stream_id AND stream.next_offset = locked.start_offset
RETURNING stream.stream_id;
