-- Drop one staging table whose attempt can no longer publish. It may belong to another role.
SELECT tideline.drop_staging(%(table)s);
