-- Drop the staging table of an attempt, if it still exists. It may belong to another role.
SELECT tideline.drop_staging(%(table)s);
