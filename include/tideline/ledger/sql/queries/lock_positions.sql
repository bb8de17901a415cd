-- Lock how far the streams of a batch are folded, in the order of their ids, until the end of the transaction.
SELECT stream_id FROM tideline.state_position
WHERE stream_id IN (SELECT stream_id FROM tideline.batch_range WHERE batch_id = %(batch_id)s)
ORDER BY stream_id FOR NO KEY UPDATE;
