-- name: list_published_batches
-- Batches that are published and not advanced yet, oldest first. Locked in this order, as a replay locks the batches
-- that it replaces, so that the two cannot deadlock.
SELECT batch_id FROM tideline.batch
WHERE pipeline = %(pipeline)s AND state = 'published'
ORDER BY batch_id
FOR NO KEY UPDATE;

-- name: pass_coverage
-- Move each head over what batches and holes account for, up to the first offset that nothing accounts for. The walk
-- follows the coverage from piece to piece, so pieces after that offset cost nothing. -> the streams whose heads have
-- moved. The caller holds the pipeline's lock, so no other process moves these heads meanwhile.
WITH RECURSIVE walk AS (
    SELECT stream_id, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired'
    UNION
    SELECT walk.stream_id, upper(c.offsets)
    FROM walk, LATERAL tideline.covering(walk.stream_id, int8range(walk.next_offset, walk.next_offset, '[]')) c
), reached AS (
    SELECT stream_id, max(next_offset) AS next_offset FROM walk GROUP BY stream_id
)
UPDATE tideline.stream SET next_offset = reached.next_offset
FROM reached
WHERE stream.stream_id = reached.stream_id AND stream.next_offset < reached.next_offset
RETURNING stream.stream_id;

-- name: advance_batches
-- published -> advanced, for the given batches: live batches that every head has passed, and batches of all other
-- kinds. Retired streams do not count. -> the ids of the batches that changed.
UPDATE tideline.batch SET state = 'advanced'
WHERE batch_id = ANY (%(batch_ids)s) AND state = 'published' AND NOT (kind = 'live' AND EXISTS (
    SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_range.batch_id = batch.batch_id AND stream.next_offset < upper(offsets) AND stream.state <> 'retired'))
RETURNING batch_id;

-- name: list_in_the_way
-- The unfinished batches of a DAG run, each with the task that last claimed it.
SELECT batch.batch_id, batch.state::text, attempt.dag_id, attempt.run_id, attempt.task_id, attempt.try_number, attempt.problem
FROM tideline.run_batch JOIN tideline.batch USING (batch_id) LEFT JOIN tideline.attempt ON attempt.attempt = batch.attempt
WHERE run_batch.pipeline = %(pipeline)s AND run_batch.dag_id = %(dag_id)s AND run_batch.run_id = %(run_id)s
  AND batch.state NOT IN ('advanced', 'superseded', 'abandoned')
ORDER BY batch.batch_id;

-- name: list_stopped_streams
-- The stopped streams of a pipeline, which wait for an operator's decision.
SELECT stream_id, topic, partition, next_offset, stopped_because FROM tideline.stream
WHERE pipeline = %(pipeline)s AND state = 'stopped' ORDER BY topic, partition;

-- name: list_heads
-- The heads of a pipeline's streams, without retired streams.
SELECT topic, partition, next_offset FROM tideline.stream WHERE pipeline = %(pipeline)s AND state <> 'retired' ORDER BY stream_id;
