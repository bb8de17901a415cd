-- Count the staged rows that belong to a record of the batch.
SELECT count(*) AS n_rows FROM ({placed}) AS s;
