-- Those of some batches that are not through yet.
SELECT batch_id FROM tideline.batch WHERE batch_id = ANY (%(batch_ids)s) AND state NOT IN ('advanced', 'superseded', 'abandoned');
