-- The batches that are folded into the state of a pipeline and were not rewound, newest first, with their ranges.
SELECT b.batch_id, b.seq, b.undo, r.stream_id, s.topic, s.partition, lower(r.offsets) AS start_offset, upper(r.offsets) AS end_offset
FROM tideline.state_batch b JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream s USING (stream_id)
WHERE b.pipeline = %(pipeline)s AND b.seq > %(after)s AND b.undo <> 'applied'
ORDER BY b.seq DESC, r.stream_id;
