-- One row, if the table has any.
SELECT 1 AS there FROM {table} LIMIT 1;
