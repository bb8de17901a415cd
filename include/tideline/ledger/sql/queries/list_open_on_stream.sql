-- Open batches of certain kinds that hold offsets of a stream within a range, oldest first.
SELECT batch_id FROM tideline.batch JOIN tideline.batch_range USING (batch_id)
WHERE state IN ('planned', 'writing', 'failed') AND kind::text = ANY (%(kinds)s)
  AND stream_id = %(stream_id)s AND offsets::int8range && int8range(%(start)s, %(end)s)
ORDER BY batch_id;
