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
