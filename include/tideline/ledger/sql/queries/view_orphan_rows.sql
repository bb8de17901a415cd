-- Counts and rejects that attempts had put aside which do not write any more.
WITH alive AS (SELECT attempt_id FROM tideline.batch JOIN tideline.attempt USING (attempt) WHERE state = 'writing')
SELECT (SELECT count(*) FROM tideline.staged_count WHERE attempt_id NOT IN (SELECT attempt_id FROM alive)) AS n_counts,
       (SELECT count(*) FROM tideline.staged_reject WHERE attempt_id NOT IN (SELECT attempt_id FROM alive)) AS n_rejects;
