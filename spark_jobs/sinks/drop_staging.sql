-- Drop the staging table of an attempt, if it still exists.
DROP TABLE IF EXISTS {staging};
