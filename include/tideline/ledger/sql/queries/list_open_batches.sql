-- Batches that somebody still has to write, oldest first, whichever run planned them.
SELECT batch_id, kind::text, state::text FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state IN ('planned', 'writing', 'failed')
ORDER BY batch_id;
