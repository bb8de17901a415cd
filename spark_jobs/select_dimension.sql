-- Every row of a dimension table.
SELECT * FROM {table};
