-- name: create_marks
-- Create the table of deleted keys of an upsert pipeline: the key of the output table, and the coordinates of the newest
-- tombstone of each key.
CREATE TABLE {marks} AS
SELECT {key}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {target} WITH NO DATA;
ALTER TABLE {marks} ADD PRIMARY KEY ({key}), ALTER COLUMN kafka_topic_id SET NOT NULL, ALTER COLUMN kafka_partition SET NOT NULL,
    ALTER COLUMN kafka_offset SET NOT NULL, ALTER COLUMN tideline_batch SET NOT NULL;
COMMENT ON TABLE {marks} IS 'Tideline: the newest tombstone of each key. Without it an older record would bring a deleted row back.';
