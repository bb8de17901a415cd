-- Batches that are published and not advanced yet, oldest first. Locked in this order, as a replay locks the batches
-- that it replaces, so that the two cannot deadlock.
SELECT batch_id FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state = 'published'
ORDER BY batch_id
FOR NO KEY UPDATE;
