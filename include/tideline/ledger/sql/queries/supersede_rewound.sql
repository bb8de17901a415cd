-- published | advanced -> superseded: batches whose undo was applied. Their offsets are free again.
UPDATE tideline.batch SET state = 'superseded'
WHERE batch_id = ANY (%(batch_ids)s) AND state IN ('published', 'advanced')
RETURNING batch_id;
