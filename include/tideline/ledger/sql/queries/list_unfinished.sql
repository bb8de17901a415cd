-- Those of the given batches that are not finished: neither advanced, nor superseded, nor abandoned.
SELECT batch_id FROM tideline.batch WHERE batch_id = ANY (%(batch_ids)s) AND state NOT IN ('advanced', 'superseded', 'abandoned');
