-- Delete the rows that batches have written to the output. Rows of keys that have expired have coordinates before their batch, so only the batch tells
-- them. Reads all of the output, unless it has an index on tideline_batch.
DELETE FROM {target} WHERE tideline_batch = ANY (%(batch_ids)s);
