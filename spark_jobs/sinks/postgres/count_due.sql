-- How many keys have timers that have come.
SELECT count(*) AS n_keys FROM {due} AS due;
