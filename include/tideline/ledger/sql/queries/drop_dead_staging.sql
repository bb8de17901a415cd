-- Drop one staging table whose attempt can no longer publish.
DROP TABLE IF EXISTS {table};
