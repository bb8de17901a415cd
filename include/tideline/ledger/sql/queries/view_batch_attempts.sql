-- The attempts of a batch: which task, on which host, and with which outcome.
SELECT fence, attempt, dag_id, run_id, task_id, try_number, host, pid, started_at, heartbeat_at, n_read, progressed_at, ended_at, outcome::text, problem
FROM tideline.attempt WHERE batch_id = %(batch_id)s
ORDER BY fence;
