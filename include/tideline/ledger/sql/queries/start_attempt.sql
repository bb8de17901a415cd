-- Insert a new attempt, one fence above the batch's last one.
INSERT INTO tideline.attempt (batch_id, fence, dag_id, run_id, task_id, try_number, host, pid)
VALUES (%(batch_id)s, %(fence)s, %(dag_id)s, %(run_id)s, %(task_id)s, %(try_number)s, %(host)s, %(pid)s)
RETURNING attempt_id, attempt, fence;
