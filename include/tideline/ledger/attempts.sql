-- name: lock_batch
-- A batch with its newest attempt. The batch is locked, so that claim, publish and fail of one batch take turns. NO
-- KEY: a planner can give the batch to a run while it is being published. The lock and the read are two statements: a
-- single statement that waited for the lock would join the new version of the batch with the attempts of an older
-- snapshot.
SELECT FROM tideline.batch WHERE batch_id = %(batch_id)s FOR NO KEY UPDATE;
SELECT batch.batch_id, batch.identity, pipeline, batch.kind::text, batch.state::text, batch.fence, batch.attempt, batch.outside, batch.stateful, newest.attempt_id,
       newest.dag_id, newest.run_id, newest.task_id, newest.try_number, newest.host, newest.pid,
       extract(epoch FROM clock_timestamp() - newest.heartbeat_at)::float8 AS silent_seconds
FROM tideline.batch LEFT JOIN tideline.attempt newest ON newest.attempt = batch.attempt
WHERE batch.batch_id = %(batch_id)s;

-- name: find_given_batch
-- Whether a DAG run was ever given this batch.
SELECT batch_id FROM tideline.run_batch
WHERE pipeline = %(pipeline)s AND dag_id = %(dag_id)s AND run_id = %(run_id)s AND batch_id = %(batch_id)s;

-- name: end_attempt
-- End an attempt that has not ended yet, with its outcome and, unless it published, its problem.
UPDATE tideline.attempt SET ended_at = clock_timestamp(), outcome = %(outcome)s, problem = %(problem)s
WHERE attempt = %(attempt)s AND ended_at IS NULL;

-- name: start_attempt
-- Insert a new attempt, one fence above the batch's last one.
INSERT INTO tideline.attempt (batch_id, fence, dag_id, run_id, task_id, try_number, host, pid)
VALUES (%(batch_id)s, %(fence)s, %(dag_id)s, %(run_id)s, %(task_id)s, %(try_number)s, %(host)s, %(pid)s)
RETURNING attempt_id, attempt, fence;

-- name: claim_batch
-- Claim a batch (planned | failed | writing -> writing), only if its fence is still exactly one below the new one.
UPDATE tideline.batch SET state = 'writing', fence = %(fence)s, attempt = %(attempt)s
WHERE batch_id = %(batch_id)s AND fence = %(fence)s - 1 AND state IN ('planned', 'failed', 'writing')
RETURNING batch_id;

-- name: list_ranges
-- The ranges of a batch with the identity of each stream, in stream order.
SELECT stream_id, pipeline, cluster_id, topic, topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset, gaps_allowed,
       n_read, n_written, n_rejected, n_filtered, n_gap
FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
WHERE batch_id = %(batch_id)s
ORDER BY stream_id;

-- name: beat
-- Record a heartbeat of an attempt, and how many records its tasks have read. No row: a newer attempt has claimed its
-- batch. An attempt that has just published may send one more heartbeat. To treat that as a takeover would cancel the
-- next batch that the same driver writes. Its staged counts are already deleted by then.
UPDATE tideline.attempt SET
    heartbeat_at = clock_timestamp(),
    n_read = greatest(attempt.n_read, so_far.n_read),
    progressed_at = CASE WHEN so_far.n_read > attempt.n_read THEN clock_timestamp() ELSE attempt.progressed_at END
FROM tideline.batch JOIN tideline.attempt newest ON newest.attempt = batch.attempt
CROSS JOIN LATERAL (SELECT coalesce(sum(c.n_read), 0)::bigint AS n_read FROM tideline.staged_count c WHERE c.attempt_id = newest.attempt_id) AS so_far
WHERE attempt.attempt = %(attempt)s AND batch.batch_id = attempt.batch_id AND batch.attempt = attempt.attempt
RETURNING attempt.attempt_id;

-- name: fail_batch
-- writing -> failed, only by the attempt that holds the batch.
UPDATE tideline.batch SET state = 'failed'
WHERE batch_id = %(batch_id)s AND state = 'writing' AND attempt = %(attempt)s
RETURNING batch_id;

-- name: find_batch
-- One batch as it was planned, with its state and newest attempt.
SELECT batch_id, pipeline, kind::text, state::text, attempt, fence, outside, stateful, dag_id, run_id FROM tideline.batch WHERE batch_id = %(batch_id)s;
