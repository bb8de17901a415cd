-- name: create_trial
-- Create a table for the rows that a batch would insert, so that they can be tried record by record. The transaction is
-- rolled back at its end, and the table with it.
CREATE UNLOGGED TABLE {trial} AS
SELECT {columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {target} WITH NO DATA;

-- name: find_occupied
-- Find a row of the target that has the key of a row that the batch would insert. The batch has not inserted it, and
-- the ranges of the batch allow no row of another batch there. So another writer has inserted it. The row's own batch
-- id and its pipeline are returned for the message.
WITH ranges AS MATERIALIZED (
    SELECT topic_id, partition, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
)
SELECT t.kafka_partition, t.kafka_offset, t.tideline_batch, other.pipeline
FROM {target} t LEFT JOIN tideline.batch other ON other.batch_id = t.tideline_batch
JOIN ranges r ON t.kafka_topic_id = r.topic_id AND t.kafka_partition = r.partition AND t.kafka_offset >= r.start_offset AND t.kafka_offset < r.end_offset
WHERE ({target_key}) IN (SELECT {key} FROM {trial})
ORDER BY t.kafka_partition, t.kafka_offset LIMIT 1;

-- name: insert_apart
-- Insert those rows of a trial that no key of the target refuses, in order, and leave the others in the trial. These
-- are few, and are then tried one by one. All rows are left in the trial if a row breaks something other than a key, or
-- if a record has several rows, since these must be inserted together. The same holds for tables with rules or
-- deferrable keys, which do not support ON CONFLICT.
DO $$
BEGIN
    IF EXISTS (SELECT FROM {trial} GROUP BY kafka_partition, kafka_offset, kafka_topic_id HAVING count(*) > 1) THEN
        RETURN;
    END IF;
    WITH inserted AS (
        INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
        SELECT {staged_columns}, s.kafka_topic_id, s.kafka_partition, s.kafka_offset, s.tideline_batch FROM {trial} s
        ORDER BY s.kafka_partition, s.kafka_offset, s.kafka_topic_id
        ON CONFLICT DO NOTHING
        RETURNING kafka_topic_id, kafka_partition, kafka_offset
    )
    DELETE FROM {trial} s USING inserted i
    WHERE s.kafka_topic_id = i.kafka_topic_id AND s.kafka_partition = i.kafka_partition AND s.kafka_offset = i.kafka_offset;
EXCEPTION WHEN {of_a_row} OR feature_not_supported OR object_not_in_prerequisite_state THEN
    NULL;
END $$;

-- name: number_records
-- Number the records of a trial in the order in which they are tried, by partition and offset. `n_up_to` counts rows:
-- those of the record and of all records before it.
CREATE INDEX ON {trial} (kafka_partition, kafka_offset, kafka_topic_id);
CREATE UNLOGGED TABLE {records} AS
SELECT row_number() OVER in_order AS number, kafka_topic_id, kafka_partition, kafka_offset, n_rows, sum(n_rows) OVER in_order AS n_up_to,
       NULL::text AS state, NULL::text AS reason
FROM (SELECT kafka_topic_id, kafka_partition, kafka_offset, count(*) AS n_rows
      FROM {trial} GROUP BY kafka_topic_id, kafka_partition, kafka_offset) AS each
WINDOW in_order AS (ORDER BY kafka_partition, kafka_offset, kafka_topic_id);
ALTER TABLE {records} ADD PRIMARY KEY (number);

-- name: try_records
-- Insert the records of a trial into the target, and store the reason for each record that it refuses. Many records are
-- inserted at once. If they are refused, half of them are tried, and so on down to a single record. After a refused
-- record the next try has at most twice as many records as were accepted since the refused one before it. So the target
-- itself decides, whatever its constraints, triggers and indexes are. Sequential scans are disabled because the trial
-- has no statistics, and each statement needs only a few of its rows.
SET LOCAL enable_seqscan = off;
SET LOCAL plan_cache_mode = force_generic_plan;
DO $$
#variable_conflict use_column
DECLARE
    most constant bigint := 1024;
    wanted bigint := most;
    n_records bigint := (SELECT count(*) FROM {records});
    first_one bigint := 1;
    last_one bigint;
    one_is_refused_until bigint := 0;
    last_refused bigint := 0;
    low record;
    high record;
    n_inserted bigint;
    said text;
    detail text;
    law text;
    found_state text;
BEGIN
    WHILE first_one <= n_records LOOP
        last_one := least(first_one + wanted - 1, n_records);
        SELECT * INTO low FROM {records} r WHERE r.number = first_one;
        SELECT * INTO high FROM {records} r WHERE r.number = last_one;
        BEGIN
            INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
            SELECT {staged_columns}, s.kafka_topic_id, s.kafka_partition, s.kafka_offset, s.tideline_batch FROM {trial} s
            WHERE (s.kafka_partition, s.kafka_offset, s.kafka_topic_id) >= (low.kafka_partition, low.kafka_offset, low.kafka_topic_id)
              AND (s.kafka_partition, s.kafka_offset, s.kafka_topic_id) <= (high.kafka_partition, high.kafka_offset, high.kafka_topic_id)
            {on_conflict};
            GET DIAGNOSTICS n_inserted = ROW_COUNT;
            IF n_inserted <> high.n_up_to - low.n_up_to + low.n_rows THEN
                RAISE EXCEPTION 'a trigger of the table left the row out';
            END IF;
            first_one := last_one + 1;
            wanted := CASE WHEN first_one <= one_is_refused_until THEN (one_is_refused_until - first_one + 2) / 2 ELSE least(2 * wanted, most) END;
        EXCEPTION WHEN {of_a_row} THEN
            IF first_one < last_one THEN
                one_is_refused_until := last_one;
                wanted := (last_one - first_one + 1) / 2;
            ELSE
                GET STACKED DIAGNOSTICS said = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, law = CONSTRAINT_NAME, found_state = RETURNED_SQLSTATE;
                -- Add the detail only if it names the conflicting key or the missing reference. Other details show the whole row.
                IF detail <> '' AND (found_state IN ('23503', '23505', '23P01') OR found_state = '23514' AND law = '') THEN
                    said := said || ': ' || detail;
                END IF;
                UPDATE {records} r SET state = found_state, reason = left(said, 1000) WHERE r.number = first_one;
                wanted := least(2 * (first_one - last_refused), most);
                one_is_refused_until := 0;
                last_refused := first_one;
                first_one := first_one + 1;
            END IF;
        END;
    END LOOP;
END $$;

-- name: list_refused
-- List the records of a trial that the target has refused, in order, each with the reason and its SQLSTATE.
SELECT stream_id, t.kafka_offset, t.reason, t.state
FROM {records} t
JOIN tideline.stream ON stream.topic_id = t.kafka_topic_id AND stream.partition = t.kafka_partition
JOIN tideline.batch_range r USING (stream_id)
WHERE r.batch_id = %(batch_id)s AND t.reason IS NOT NULL
ORDER BY t.number;

-- name: keep_dangling
-- Keep only those records of a trial that were refused because a foreign key found no row. They are tried again, since
-- the rows that they refer to may have been inserted since.
DELETE FROM {trial} s USING {records} r
WHERE s.kafka_topic_id = r.kafka_topic_id AND s.kafka_partition = r.kafka_partition AND s.kafka_offset = r.kafka_offset
  AND r.state IS DISTINCT FROM %(state)s;
DROP TABLE {records};
