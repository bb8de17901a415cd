-- Delete the staged counts, the staged rejects and the lists of re-driven rejects of attempts that can no longer
-- publish, and that have no intent which a later attempt may settle. -> n_rows deleted. Looks only at attempts that
-- have staged rows, and finds each one after the one before (a loose index scan): these are few, while the attempts of
-- the whole history are many.
WITH RECURSIVE staged AS (
    (SELECT least((SELECT min(attempt_id) FROM tideline.staged_count), (SELECT min(attempt_id) FROM tideline.staged_reject),
                  (SELECT min(attempt_id) FROM tideline.staged_redrive)) AS attempt_id)
    UNION ALL
    SELECT least((SELECT min(attempt_id) FROM tideline.staged_count c WHERE c.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_reject r WHERE r.attempt_id > staged.attempt_id),
                 (SELECT min(attempt_id) FROM tideline.staged_redrive d WHERE d.attempt_id > staged.attempt_id))
    FROM staged WHERE staged.attempt_id IS NOT NULL
), dead AS MATERIALIZED (
    SELECT staged.attempt_id
    FROM staged, LATERAL (SELECT * FROM tideline.attempt a WHERE a.attempt_id = staged.attempt_id OFFSET 0) AS attempt JOIN tideline.batch USING (batch_id)
    WHERE batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
      AND NOT (batch.state IN ('planned', 'writing', 'failed') AND EXISTS (SELECT FROM tideline.intent i WHERE i.attempt_id = staged.attempt_id OFFSET 0))
), counts AS (
    DELETE FROM tideline.staged_count WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
), rejects AS (
    DELETE FROM tideline.staged_reject WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
), redriven AS (
    DELETE FROM tideline.staged_redrive WHERE attempt_id = ANY (ARRAY(SELECT attempt_id FROM dead)) RETURNING 1
)
SELECT (SELECT count(*) FROM counts) + (SELECT count(*) FROM rejects) + (SELECT count(*) FROM redriven) AS n_rows;
