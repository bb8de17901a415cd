-- Check deferred constraints now. At COMMIT, a row that breaks one could no longer be found.
SET CONSTRAINTS {constraints} IMMEDIATE;
