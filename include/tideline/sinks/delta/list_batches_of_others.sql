-- Those of the given batches that are of other pipelines than the given batch.
SELECT other.batch_id FROM tideline.batch other JOIN tideline.batch mine ON mine.batch_id = %(batch_id)s
WHERE other.batch_id = ANY (%(batch_ids)s::bigint[]) AND other.pipeline <> mine.pipeline;
