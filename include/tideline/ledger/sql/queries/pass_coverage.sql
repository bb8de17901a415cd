-- Heads that stand at a hole, or at what a backfill or a replay owns, pass it. -> the streams that moved. Live batches move heads by themselves,
-- all of theirs at once.
WITH locked AS MATERIALIZED (
    SELECT stream_id, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id FOR NO KEY UPDATE
)
UPDATE tideline.stream SET next_offset = upper(c.offsets)
FROM locked, LATERAL tideline.covering(locked.stream_id, int8range(locked.next_offset, locked.next_offset, '[]')) c
LEFT JOIN tideline.batch ON batch.batch_id = c.batch_id
WHERE stream.stream_id = locked.stream_id AND (c.hole IS NOT NULL OR batch.kind <> 'live')
RETURNING stream.stream_id;
