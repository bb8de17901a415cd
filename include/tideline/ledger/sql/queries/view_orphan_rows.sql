-- How many staged counts and rejects belong to attempts that no longer write and that no later attempt may settle. Attempts with staged rows are found one
-- after the other (a loose index scan), so that the rows of a living attempt, which may be many, are not read.
WITH RECURSIVE staged AS (
    (SELECT least((SELECT min(attempt_id) FROM tideline.staged_count), (SELECT min(attempt_id) FROM tideline.staged_reject)) AS attempt_id)
    UNION ALL
    SELECT least((SELECT min(attempt_id) FROM tideline.staged_count c WHERE c.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_reject r WHERE r.attempt_id > staged.attempt_id))
    FROM staged WHERE staged.attempt_id IS NOT NULL
), dead AS MATERIALIZED (
    SELECT staged.attempt_id
    FROM staged, LATERAL (SELECT * FROM tideline.attempt a WHERE a.attempt_id = staged.attempt_id OFFSET 0) AS attempt JOIN tideline.batch USING (batch_id)
    WHERE NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
      AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = staged.attempt_id OFFSET 0))
)
SELECT coalesce(sum((SELECT count(*) FROM tideline.staged_count c WHERE c.attempt_id = dead.attempt_id)), 0)::bigint AS n_counts,
       coalesce(sum((SELECT count(*) FROM tideline.staged_reject r WHERE r.attempt_id = dead.attempt_id)), 0)::bigint AS n_rejects
FROM dead;
