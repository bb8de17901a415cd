-- Record that a batch is the next one that is folded into the state of its pipeline. It is published in the same transaction. Records nothing if
-- another batch has been folded after the one numbered `after`; if one is being published now, it waits for the end of that.
INSERT INTO tideline.state_batch (batch_id, pipeline, seq, processor, n_keys, n_expired)
SELECT %(batch_id)s, %(pipeline)s, %(after)s::bigint + 1, %(processor)s, %(n_keys)s, %(n_expired)s
WHERE NOT EXISTS (SELECT FROM tideline.state_batch WHERE pipeline = %(pipeline)s AND seq > %(after)s)
ON CONFLICT (pipeline, seq) DO NOTHING;
