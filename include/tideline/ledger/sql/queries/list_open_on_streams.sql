-- Open batches of the given kinds that hold offsets in one of the wanted ranges, each of one stream. Oldest first.
SELECT DISTINCT batch_id FROM tideline.batch JOIN tideline.batch_range USING (batch_id)
JOIN unnest(%(stream_ids)s::bigint[], %(starts)s::bigint[], %(ends)s::bigint[]) AS w (stream_id, start_offset, end_offset) USING (stream_id)
WHERE state IN ('planned', 'writing', 'failed') AND kind::text = ANY (%(kinds)s) AND offsets::int8range && int8range(w.start_offset, w.end_offset)
ORDER BY batch_id;
