-- name -> the index of the ledger, if it is there and was not made to its end.
SELECT indexrelid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE relnamespace = 'tideline'::regnamespace AND relname = %(name)s AND NOT indisvalid;
