-- Batches that are published and not through, oldest first; locked against a second walk.
SELECT batch_id FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state = 'published'
ORDER BY batch_id
FOR NO KEY UPDATE;
