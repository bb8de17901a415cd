-- One staging table that nobody can publish from.
DROP TABLE IF EXISTS {table};
