-- Each head that stands at offsets which a batch or a hole accounts for passes them. -> the streams that moved.
WITH locked AS MATERIALIZED (
    SELECT stream_id, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id FOR NO KEY UPDATE
)
UPDATE tideline.stream SET next_offset = upper(c.offsets)
FROM locked, LATERAL tideline.covering(locked.stream_id, int8range(locked.next_offset, locked.next_offset, '[]')) c
WHERE stream.stream_id = locked.stream_id
RETURNING stream.stream_id;
