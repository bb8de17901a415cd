-- Counts and rejects that such attempts had put aside. -> how many rows.
WITH dead AS MATERIALIZED (
    SELECT attempt_id FROM tideline.attempt JOIN tideline.batch USING (batch_id)
    WHERE batch.pipeline = %(pipeline)s AND NOT (batch.state = 'writing' AND batch.attempt = attempt.attempt)
), counts AS (
    DELETE FROM tideline.staged_count USING dead WHERE staged_count.attempt_id = dead.attempt_id RETURNING 1
), rejects AS (
    DELETE FROM tideline.staged_reject USING dead WHERE staged_reject.attempt_id = dead.attempt_id RETURNING 1
)
SELECT (SELECT count(*) FROM counts) + (SELECT count(*) FROM rejects) AS n_rows;
