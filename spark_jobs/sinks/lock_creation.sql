-- Until the end of the transaction nobody else creates a table, or the schema that two of them are in.
SELECT pg_advisory_xact_lock(hashtext('tideline.create'));
