-- Record that a batch is the next one that is folded into the state of its pipeline. It is published in the same transaction.
INSERT INTO tideline.state_batch (batch_id, pipeline, seq, processor, n_keys, n_expired)
SELECT %(batch_id)s, %(pipeline)s, coalesce(max(seq), 0) + 1, %(processor)s, %(n_keys)s, %(n_expired)s
FROM tideline.state_batch WHERE pipeline = %(pipeline)s;
