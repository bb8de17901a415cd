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
