-- name: lock_columns
-- Wait until no other session uses a table, and keep all of them out until the end of the transaction.
LOCK TABLE {target} IN ACCESS EXCLUSIVE MODE;

-- name: add_column
-- Add a column that is null in all rows. Postgres changes its catalog only, however many rows there are.
ALTER TABLE {target} ADD COLUMN {column} {type};
