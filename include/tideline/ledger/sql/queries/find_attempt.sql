-- What became of a batch, and which attempt it was.
SELECT state::text, attempt FROM tideline.batch WHERE batch_id = %(batch_id)s;
