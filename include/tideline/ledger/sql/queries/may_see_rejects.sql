-- Whether this role may read rejects: one that only looks at numbers may lack the right, because records are in them.
SELECT has_table_privilege('tideline.reject', 'SELECT') AS may;
