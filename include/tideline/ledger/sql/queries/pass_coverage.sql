-- Move each head over what batches and holes account for, up to the first offset that nothing accounts for. The walk
-- follows the coverage from piece to piece, so pieces after that offset cost nothing. -> the streams whose heads have
-- moved. The caller holds the pipeline's lock, so no other process moves these heads meanwhile.
WITH RECURSIVE walk AS (
    SELECT stream_id, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired'
    UNION
    SELECT walk.stream_id, upper(c.offsets)
    FROM walk, LATERAL tideline.covering(walk.stream_id, int8range(walk.next_offset, walk.next_offset, '[]')) c
), reached AS (
    SELECT stream_id, max(next_offset) AS next_offset FROM walk GROUP BY stream_id
)
UPDATE tideline.stream SET next_offset = reached.next_offset
FROM reached
WHERE stream.stream_id = reached.stream_id AND stream.next_offset < reached.next_offset
RETURNING stream.stream_id;
