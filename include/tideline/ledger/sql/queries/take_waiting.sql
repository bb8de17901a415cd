-- Take batches to announce them, for one task. -> those that no other task has taken since they were listed. Rows are
-- locked in order, so that two tasks cannot deadlock.
WITH listed AS (
    SELECT outbox.batch_id FROM tideline.outbox JOIN unnest(%(batch_ids)s::bigint[], %(n_tries)s::integer[]) AS seen (batch_id, n_tries) USING (batch_id)
    WHERE outbox.n_tries = seen.n_tries AND announced_at IS NULL
    ORDER BY batch_id FOR UPDATE OF outbox
)
UPDATE tideline.outbox SET n_tries = outbox.n_tries + 1, dag_id = %(dag_id)s, run_id = %(run_id)s, task_id = %(task_id)s
FROM listed WHERE outbox.batch_id = listed.batch_id
RETURNING outbox.batch_id;
