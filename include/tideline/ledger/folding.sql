-- name: create_state_staging
-- Create the table in which an attempt stages states. `value` is null for a key that has no state any more. Phase 1 folds records; in phase 2 keys
-- expire.
CREATE UNLOGGED TABLE {staging} (
    tideline_task bigint NOT NULL,
    phase smallint NOT NULL CHECK (phase IN (1, 2)),
    key text COLLATE "C" NOT NULL,
    stream_id bigint NOT NULL,
    value jsonb,
    expires_at timestamptz,
    kafka_offset bigint NOT NULL
);

-- name: lock_positions
-- Lock how far the streams of a batch are folded, in the order of their ids, until the end of the transaction.
SELECT stream_id FROM tideline.state_position
WHERE stream_id IN (SELECT stream_id FROM tideline.batch_range WHERE batch_id = %(batch_id)s)
ORDER BY stream_id FOR NO KEY UPDATE;

-- name: count_staged_states
-- How many states the winning tasks have staged, by phase, and of how many keys. In the second phase keys expire.
SELECT phase, count(*) AS n_rows, count(DISTINCT key) AS n_keys
FROM {staging}
WHERE phase = 1 AND tideline_task = ANY (%(folding)s) OR phase = 2 AND tideline_task = ANY (%(expiring)s)
GROUP BY phase;

-- name: discard_staged_states
-- Delete staged states that are not the last of their key: those of losing tasks, and those of keys that have expired afterwards.
DELETE FROM {staging} s
WHERE phase = 1 AND (tideline_task <> ALL (%(folding)s) OR EXISTS (
          SELECT FROM {staging} later WHERE later.phase = 2 AND later.tideline_task = ANY (%(expiring)s) AND later.key = s.key))
   OR phase = 2 AND tideline_task <> ALL (%(expiring)s);

-- name: analyze_staged_states
-- Collect statistics of the staged states: without them the planner expects a few rows.
ANALYZE {staging};

-- name: count_kept_states
-- How many keys a batch has changed, after all states but the last of each key were deleted from the staged ones.
SELECT count(*) AS n_keys FROM {staging};

-- name: fold_batch
-- Record that a batch is the next one that is folded into the state of its pipeline. It is published in the same transaction. Records nothing if
-- another batch has been folded after the one numbered `after`; if one is being published now, it waits for the end of that.
INSERT INTO tideline.state_batch (batch_id, pipeline, seq, processor, n_keys, n_expired)
SELECT %(batch_id)s, %(pipeline)s, %(after)s::bigint + 1, %(processor)s, %(n_keys)s, %(n_expired)s
WHERE NOT EXISTS (SELECT FROM tideline.state_batch WHERE pipeline = %(pipeline)s AND seq > %(after)s)
ON CONFLICT (pipeline, seq) DO NOTHING;

-- name: delete_states
-- Delete the states that a batch has cleared. The keys are an array, so that they are looked up in the index: a join with millions of other states could
-- read all of them.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND key = ANY (ARRAY(SELECT key FROM {staging} WHERE value IS NULL));

-- name: put_states
-- Insert or replace the states that a batch has left. Triggers keep how they were before.
INSERT INTO tideline.state (pipeline, key, stream_id, value, expires_at, kafka_offset, batch_id)
SELECT %(pipeline)s, key, stream_id, value, expires_at, kafka_offset, %(batch_id)s FROM {staging} WHERE value IS NOT NULL
ON CONFLICT (pipeline, key) DO UPDATE
SET stream_id = excluded.stream_id, value = excluded.value, expires_at = excluded.expires_at, kafka_offset = excluded.kafka_offset,
    batch_id = excluded.batch_id;

-- name: reset_states
-- Delete the states of streams that begin anew after a gap, also those of earlier incarnations of their topics. States that the batch has left stay.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND batch_id <> %(batch_id)s AND stream_id IN (
    SELECT s.stream_id FROM tideline.stream s JOIN tideline.stream anew USING (pipeline, topic, partition) WHERE anew.stream_id = ANY (%(stream_ids)s));

-- name: move_positions
-- Move the positions of a batch's streams to the ends of its ranges, with the largest event times that were folded. Triggers keep how they were before.
UPDATE tideline.state_position p
SET next_offset = upper(r.offsets), max_time = greatest(p.max_time, t.max_time), version = p.version + 1, batch_id = r.batch_id
FROM tideline.batch_range r LEFT JOIN unnest(%(stream_ids)s::bigint[], %(max_times)s::timestamptz[]) AS t (stream_id, max_time) USING (stream_id)
WHERE r.batch_id = %(batch_id)s AND p.stream_id = r.stream_id;
INSERT INTO tideline.state_position (stream_id, pipeline, next_offset, max_time, version, batch_id)
SELECT stream_id, pipeline, upper(offsets), max_time, 1, batch_id
FROM tideline.batch_range r JOIN tideline.stream USING (stream_id)
LEFT JOIN unnest(%(stream_ids)s::bigint[], %(max_times)s::timestamptz[]) AS t (stream_id, max_time) USING (stream_id)
WHERE batch_id = %(batch_id)s AND NOT EXISTS (SELECT FROM tideline.state_position p WHERE p.stream_id = r.stream_id)
ORDER BY stream_id;
