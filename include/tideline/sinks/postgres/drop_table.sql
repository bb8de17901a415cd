-- Drop a table that a publishing transaction has made for itself.
DROP TABLE {table};
