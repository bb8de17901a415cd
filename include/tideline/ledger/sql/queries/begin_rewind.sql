-- Record that this transaction goes back to a batch; null for the beginning.
INSERT INTO tideline.rewind (pipeline, to_batch, reason) VALUES (%(pipeline)s, %(to_batch)s, %(reason)s) RETURNING rewind_id;
