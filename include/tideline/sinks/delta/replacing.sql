-- name: list_loading_batches
-- The batches of a replay's own pipeline that have loaded, or load, offsets of its ranges: only rows of these may be
-- replaced. A stream belongs to one pipeline, so no batch of another one is among them.
SELECT o.batch_id FROM tideline.batch_range r, tideline.reserving(r.stream_id, r.offsets) o WHERE r.batch_id = %(batch_id)s
UNION
SELECT o.batch_id FROM tideline.batch_range r, tideline.replaying(r.stream_id, r.offsets) o WHERE r.batch_id = %(batch_id)s;

-- name: list_batches_of_others
-- Those of the given batches that are of other pipelines than the given batch.
SELECT other.batch_id FROM tideline.batch other JOIN tideline.batch mine ON mine.batch_id = %(batch_id)s
WHERE other.batch_id = ANY (%(batch_ids)s::bigint[]) AND other.pipeline <> mine.pipeline;
