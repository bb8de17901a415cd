-- The batches of a replay's own pipeline that have loaded, or load, offsets of its ranges: only rows of these may be
-- replaced. A stream belongs to one pipeline, so no batch of another one is among them.
SELECT o.batch_id FROM tideline.batch_range r, tideline.reserving(r.stream_id, r.offsets) o WHERE r.batch_id = %(batch_id)s
UNION
SELECT o.batch_id FROM tideline.batch_range r, tideline.replaying(r.stream_id, r.offsets) o WHERE r.batch_id = %(batch_id)s;
