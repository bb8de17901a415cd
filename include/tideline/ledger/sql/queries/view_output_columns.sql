-- The columns of an output table with their types, in order; none if it does not exist, or if this role may not see its schema.
SELECT attname AS name, format_type(atttypid, atttypmod) AS type
FROM pg_attribute WHERE attrelid = to_regclass(%(output)s) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum;
