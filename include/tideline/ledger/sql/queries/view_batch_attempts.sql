-- Each try at writing a batch: which task, where, and what came of it.
SELECT fence, attempt, dag_id, run_id, task_id, try_number, host, pid, started_at, heartbeat_at, n_read, progressed_at, ended_at, outcome::text, problem
FROM tideline.attempt WHERE batch_id = %(batch_id)s
ORDER BY fence;
