-- name: read_one_snapshot
-- Let all queries of this transaction see the same moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY

-- name: select_table
-- Read every row of a table or view. There is no semicolon, because the driver puts the query into COPY (...).
SELECT * FROM {table}
