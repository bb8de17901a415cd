-- Whether the ledger has an index of this name that is invalid, because its creation was interrupted.
SELECT indexrelid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = 'tideline'::regnamespace AND relname = %(name)s AND NOT indisvalid;
