-- A task takes batches to announce them -> those that no other task has taken since they were listed. Locked in order, against a deadlock of two tasks.
WITH listed AS (
    SELECT outbox.batch_id FROM tideline.outbox JOIN unnest(%(batch_ids)s::bigint[], %(n_tries)s::integer[]) AS seen (batch_id, n_tries) USING (batch_id)
    WHERE outbox.n_tries = seen.n_tries AND announced_at IS NULL
    ORDER BY batch_id FOR UPDATE OF outbox
)
UPDATE tideline.outbox SET n_tries = outbox.n_tries + 1, dag_id = %(dag_id)s, run_id = %(run_id)s, task_id = %(task_id)s
FROM listed WHERE outbox.batch_id = listed.batch_id
RETURNING outbox.batch_id;
