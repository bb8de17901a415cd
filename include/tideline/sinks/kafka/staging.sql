-- name: create_staging
-- Create the staging table of an attempt: one row for each output record, encoded. `tideline_task` distinguishes the rows of winning
-- tasks from those of losing ones; `item_order` sorts the rows of one record as bytes.
CREATE UNLOGGED TABLE {staging} (
    tideline_stream bigint NOT NULL,
    kafka_offset bigint NOT NULL,
    item_order bytea NOT NULL,
    item text,
    tideline_task bigint NOT NULL,
    key bytea,
    value bytea NOT NULL
    {headers}
);
