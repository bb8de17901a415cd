-- Until the end of the transaction nobody else creates this table.
SELECT pg_advisory_xact_lock(hashtext('tideline.create'), hashtext(%(table)s));
