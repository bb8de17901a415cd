-- name: find_folded
-- The number of a batch among those that are folded into the state of a pipeline, unless it was rewound.
SELECT seq FROM tideline.state_batch WHERE batch_id = %(batch_id)s AND pipeline = %(pipeline)s AND undo <> 'applied';

-- name: list_folded
-- The batches that are folded into the state of a pipeline and were not rewound, newest first, with their ranges.
SELECT b.batch_id, b.seq, b.undo, r.stream_id, s.topic, s.partition, lower(r.offsets) AS start_offset, upper(r.offsets) AS end_offset
FROM tideline.state_batch b JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream s USING (stream_id)
WHERE b.pipeline = %(pipeline)s AND b.seq > %(after)s AND b.undo <> 'applied'
ORDER BY b.seq DESC, r.stream_id;

-- name: begin_rewind
-- Record that this transaction goes back to a batch; null for the beginning.
INSERT INTO tideline.rewind (pipeline, to_batch, reason) VALUES (%(pipeline)s, %(to_batch)s, %(reason)s) RETURNING rewind_id;

-- name: undo_states
-- Restore the states that a batch has changed to what they were before it. In a rewind, from the newest batch back.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND key = ANY (ARRAY(SELECT key FROM tideline.state_undo WHERE batch_id = %(batch_id)s AND NOT existed));
INSERT INTO tideline.state (pipeline, key, stream_id, value, expires_at, kafka_offset, batch_id)
SELECT %(pipeline)s, key, stream_id, value, expires_at, kafka_offset, of_batch FROM tideline.state_undo WHERE batch_id = %(batch_id)s AND existed
ON CONFLICT (pipeline, key) DO UPDATE
SET stream_id = excluded.stream_id, value = excluded.value, expires_at = excluded.expires_at, kafka_offset = excluded.kafka_offset,
    batch_id = excluded.batch_id;

-- name: undo_positions
-- Move the positions of a batch's streams back to where they were before it. Each change has a version of its own.
UPDATE tideline.state_position p
SET next_offset = u.next_offset, max_time = u.max_time, batch_id = u.of_batch, version = p.version + 1
FROM tideline.state_position_undo u
WHERE u.batch_id = %(batch_id)s AND p.stream_id = u.stream_id;

-- name: apply_undo
-- kept -> applied: the undo of a batch, after its states and positions were restored.
UPDATE tideline.state_batch SET undo = 'applied' WHERE batch_id = %(batch_id)s AND undo = 'kept';

-- name: delete_undo
-- Delete the undo of batches, which was pruned or applied.
DELETE FROM tideline.state_position_undo WHERE batch_id = ANY (%(batch_ids)s);
DELETE FROM tideline.state_undo WHERE batch_id = ANY (%(batch_ids)s);

-- name: supersede_rewound
-- published | advanced -> superseded: batches whose undo was applied. Their offsets are free again.
UPDATE tideline.batch SET state = 'superseded'
WHERE batch_id = ANY (%(batch_ids)s) AND state IN ('published', 'advanced')
RETURNING batch_id;

-- name: leave_rewound
-- Turn what batches account for into holes: offsets that a rewind has left to be loaded again.
WITH gone AS (DELETE FROM tideline.coverage WHERE batch_id = ANY (%(batch_ids)s) RETURNING stream_id, offsets)
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by)
SELECT stream_id, offsets, 'rewound', %(reason)s, current_setting('tideline.actor') FROM gone ORDER BY stream_id, offsets;

-- name: delete_rewound_rejects
-- Delete the rejects of batches that are rewound.
DELETE FROM tideline.reject WHERE batch_id = ANY (%(batch_ids)s);

-- name: delete_rewound_rows
-- Delete the rows that batches have written to the output. Rows of keys that have expired have coordinates before their batch, so only the batch tells
-- them. Reads all of the output, unless it has an index on tideline_batch.
DELETE FROM {target} WHERE tideline_batch = ANY (%(batch_ids)s);

-- name: prune_undo
-- kept -> pruned: the undo of all batches but the newest ones. -> the batches.
UPDATE tideline.state_batch SET undo = 'pruned'
WHERE pipeline = %(pipeline)s AND undo = 'kept' AND seq <= (
    SELECT seq FROM tideline.state_batch WHERE pipeline = %(pipeline)s AND undo = 'kept' ORDER BY seq DESC OFFSET %(most)s LIMIT 1)
RETURNING batch_id;
