-- How many states the winning tasks have staged, by phase, and of how many keys. In the second phase keys expire.
SELECT phase, count(*) AS n_rows, count(DISTINCT key) AS n_keys
FROM {staging}
WHERE phase = 1 AND tideline_task = ANY (%(folding)s) OR phase = 2 AND tideline_task = ANY (%(expiring)s)
GROUP BY phase;
