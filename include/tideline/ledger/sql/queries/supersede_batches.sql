-- published | advanced -> superseded: those of the given batches that own no offsets any more.
UPDATE tideline.batch SET state = 'superseded'
WHERE batch_id = ANY (%(batch_ids)s) AND state IN ('published', 'advanced') AND NOT EXISTS (SELECT FROM tideline.coverage c WHERE c.batch_id = batch.batch_id)
RETURNING batch_id;
