-- name: lock_attempt
-- Lock an attempt, so that no task of it stores counts or rejects until the end of the transaction.
SELECT attempt_id FROM tideline.attempt WHERE attempt_id = %(attempt_id)s FOR UPDATE;

-- name: store_intent
-- Store what an attempt is about to commit outside, and all that is needed to publish it later.
INSERT INTO tideline.intent (attempt_id, batch_id, output, n_rows, written, redriven_streams, redriven_offsets, facts, filtered_by_difference, position)
VALUES (%(attempt_id)s, %(batch_id)s, %(output)s, %(n_rows)s, %(written)s, %(redriven_streams)s::bigint[], %(redriven_offsets)s::bigint[],
        %(facts)s, %(filtered_by_difference)s, %(position)s);

-- name: settle_batch
-- Record whose commit an outside batch is, only by the attempt that holds it. The publication follows in the same transaction.
UPDATE tideline.batch SET written_by = %(written_by)s
WHERE batch_id = %(batch_id)s AND state = 'writing' AND attempt = %(attempt)s
RETURNING batch_id;

-- name: seal_batch
-- Record that no attempt below `fence` has committed, and that none ever can. A seal only rises.
UPDATE tideline.batch SET sealed_fence = %(fence)s
WHERE batch_id = %(batch_id)s AND sealed_fence < %(fence)s AND state IN ('writing', 'failed')
RETURNING batch_id;

-- name: list_unsealed
-- The fences of the attempts that may have committed a batch outside, or may still do so: they have an intent, and no
-- seal has ruled them out. Newest first.
SELECT a.fence FROM tideline.intent i JOIN tideline.attempt a USING (attempt_id) JOIN tideline.batch b ON b.batch_id = i.batch_id
WHERE i.batch_id = %(batch_id)s AND a.fence >= b.sealed_fence AND b.state IN ('planned', 'writing', 'failed')
ORDER BY a.fence DESC;

-- name: list_intents
-- The intents of a batch, newest attempt first.
SELECT i.attempt_id, i.batch_id, a.attempt, a.fence, i.output, i.n_rows, i.written, i.redriven_streams, i.redriven_offsets, i.facts,
       i.filtered_by_difference, i.position, extract(epoch FROM clock_timestamp() - i.at)::float8 AS age_seconds
FROM tideline.intent i JOIN tideline.attempt a USING (attempt_id)
WHERE i.batch_id = %(batch_id)s ORDER BY a.fence DESC;

-- name: find_newest_intent
-- Find the newest batch of a pipeline that an attempt was to commit to an output. An attempt with an intent has seen the output, so it must exist.
SELECT b.batch_id, a.fence
FROM tideline.batch b JOIN tideline.intent i ON i.batch_id = b.batch_id JOIN tideline.attempt a ON a.attempt_id = i.attempt_id
WHERE b.pipeline = %(pipeline)s AND b.outside AND i.output = %(output)s
ORDER BY b.batch_id DESC, a.fence DESC LIMIT 1;
