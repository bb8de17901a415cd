-- name: list_keys
-- List the columns of each primary or unique key of a table that is in force. Excluded are indexes over expressions,
-- partial indexes, and invalid indexes, such as a failed CREATE INDEX CONCURRENTLY leaves.
SELECT array_agg(a.attname::text) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL
  AND i.indisvalid AND i.indisready
GROUP BY i.indexrelid;

-- name: list_partition_keys
-- List the unique keys of a partitioned table: for each its columns in order, and the columns that the table is
-- partitioned by, on all levels.
SELECT array_agg(a.attname::text ORDER BY k.place) AS columns,
       ARRAY(SELECT DISTINCT by.attname::text
             FROM pg_partition_tree(c.oid) AS part JOIN pg_partitioned_table p ON p.partrelid = part.relid
             JOIN pg_attribute by ON by.attrelid = part.relid AND by.attnum = ANY (p.partattrs::int2[])) AS partitioned_by
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind = 'p'
  AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
GROUP BY i.indexrelid, c.oid;

-- name: describe_laws
-- Read the properties of a table that do not belong to a column: what kind of relation it is, its rules, what of it a
-- crash of the server empties, whether this user may alter it, whether row-level security applies to this user, whether a
-- foreign key of the table refers to the table itself, and the constraints that would be checked at COMMIT (its own, and those of other tables that refer
-- to its rows). Rows of a partitioned table are in its partitions, and Postgres applies no rules of these.
SELECT c.relkind::text AS kind,
       ARRAY(SELECT ARRAY[r.rulename::text, CASE r.ev_type WHEN '2' THEN 'UPDATE' WHEN '3' THEN 'INSERT' ELSE 'DELETE' END]
             FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type IN ('2', '3', '4') AND r.ev_enabled IN ('O', 'A') ORDER BY r.rulename) AS rules,
       ARRAY(SELECT format('%%I.%%I', s.nspname, u.relname)
             FROM pg_class u JOIN pg_namespace s ON s.oid = u.relnamespace
             WHERE u.relpersistence = 'u' AND u.relkind = 'r'
               AND (u.oid = c.oid OR u.oid IN (SELECT t.relid FROM pg_partition_tree(c.oid) t WHERE t.isleaf))
             ORDER BY 1) AS unlogged,
       pg_has_role(c.relowner, 'USAGE') AS is_owned,
       row_security_active(c.oid) AS row_security,
       EXISTS (SELECT FROM pg_constraint k WHERE k.contype = 'f' AND k.conrelid = c.oid AND k.confrelid = c.oid) AS refers_to_itself,
       ARRAY(SELECT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.conrelid = c.oid) AS deferred,
       ARRAY(SELECT DISTINCT ARRAY[s.nspname::text, k.conname::text] FROM pg_constraint k JOIN pg_namespace s ON s.oid = k.connamespace
             WHERE k.condeferred AND k.confrelid = c.oid AND k.conrelid <> c.oid) AS referring
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s;

-- name: describe_table
-- List the columns of a table, in order; no rows if the table does not exist. `precision` and `scale` are those of
-- numeric(p, s); `scale` is negative if a column stores whole hundreds, for example. `length` is that of varchar(n), and
-- `digits` those of a second that timestamp(n), for example, keeps. `filled` is set if only the table may give a value. Of a domain
-- all are those of the type at its bottom.
WITH RECURSIVE below AS (
    SELECT a.attnum, a.atttypid AS type_id, a.atttypmod AS modifier, false AS not_null, 0 AS depth
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT attnum, typbasetype, typtypmod, not_null OR typnotnull, depth + 1 FROM below JOIN pg_type t ON t.oid = type_id AND typtype = 'd'
)
SELECT a.attname AS name,
       CASE WHEN t.typtype = 'e' THEN 'enum' WHEN t.typname = 'citext' THEN 'citext' ELSE format_type(type_id, NULL) END AS type_name,
       CASE WHEN type_id = 'numeric'::regtype AND modifier > 0 THEN (modifier - 4) >> 16 END AS precision,
       CASE WHEN type_id = 'numeric'::regtype AND modifier > 0 THEN (((modifier - 4) & 2047) # 1024) - 1024 END AS scale,
       CASE WHEN type_id IN ('varchar'::regtype, 'bpchar'::regtype) AND modifier > 0 THEN modifier - 4 END AS length,
       CASE WHEN type_id IN ('timestamp'::regtype, 'timestamptz'::regtype, 'time'::regtype, 'interval'::regtype) AND modifier >= 0
            THEN modifier & 65535 END AS digits,
       CASE WHEN a.attgenerated <> '' THEN 'GENERATED' WHEN a.attidentity = 'a' THEN 'IDENTITY ALWAYS' END AS filled,
       (a.attnotnull OR below.not_null) AND NOT a.atthasdef AND a.attidentity = '' AND a.attgenerated = '' AS required,
       a.attnotnull OR below.not_null AS not_null
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN (SELECT DISTINCT ON (attnum) * FROM below ORDER BY attnum, depth DESC) below USING (attnum) JOIN pg_type t ON t.oid = type_id
WHERE n.nspname = %(schema)s AND c.relname = %(table)s
ORDER BY a.attnum;

-- name: lock_creation
-- Until the end of the transaction, keep other sessions from creating a table, or the schema that two tables share.
SELECT pg_advisory_xact_lock(hashtext('tideline.create'));

-- name: keep_columns
-- Until the end of the transaction, keep other sessions from altering a table. They still read and write it.
LOCK TABLE {target} IN ACCESS SHARE MODE;

-- name: allow_nulls
-- Let columns of a staging table of deletions be null: a tombstone holds none of those that say which record is newer.
ALTER TABLE {staging} {nullable};

-- name: create_staging
-- Create the staging table of an attempt: the target's columns that the transform fills, with their NOT NULLs and
-- checks. A row that the target would refuse is refused here, where only its record becomes a reject. `tideline_task`
-- distinguishes the rows of winning tasks from those of losing ones.
CREATE UNLOGGED TABLE {staging} (LIKE {target} INCLUDING CONSTRAINTS);
ALTER TABLE {staging} {drop_others}{add_columns}, ADD COLUMN tideline_stream bigint NOT NULL, ADD COLUMN tideline_task bigint NOT NULL;
