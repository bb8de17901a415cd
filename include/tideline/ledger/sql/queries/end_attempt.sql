-- End an attempt that has not ended yet, with its outcome and, unless it published, its problem.
UPDATE tideline.attempt SET ended_at = clock_timestamp(), outcome = %(outcome)s, problem = %(problem)s
WHERE attempt = %(attempt)s AND ended_at IS NULL;
