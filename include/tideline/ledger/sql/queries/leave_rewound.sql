-- Turn what batches account for into holes: offsets that a rewind has left to be loaded again.
WITH gone AS (DELETE FROM tideline.coverage WHERE batch_id = ANY (%(batch_ids)s) RETURNING stream_id, offsets)
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by)
SELECT stream_id, offsets, 'rewound', %(reason)s, current_setting('tideline.actor') FROM gone ORDER BY stream_id, offsets;
