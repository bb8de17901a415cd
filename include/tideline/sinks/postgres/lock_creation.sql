-- Until the end of the transaction, keep other sessions from creating a table, or the schema that two tables share.
SELECT pg_advisory_xact_lock(hashtext('tideline.create'));
