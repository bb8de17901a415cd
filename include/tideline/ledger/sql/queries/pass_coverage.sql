-- Each head passes what batches and holes account for without a gap, as far as that goes: from piece to piece, so that what lies behind the first
-- gap costs nothing. -> the streams that moved. Locked first, in id order as everywhere, and walked then: what was published while this waited
-- for the locks is seen as well.
SELECT FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id FOR NO KEY UPDATE;
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
