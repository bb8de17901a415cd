-- Record in the coverage that the batch owns its ranges.
INSERT INTO tideline.coverage (stream_id, offsets, batch_id)
SELECT stream_id, offsets, batch_id FROM tideline.batch_range WHERE batch_id = %(batch_id)s ORDER BY stream_id;
