-- Create a table for the rows that a batch would insert, so that they can be tried record by record. The transaction is
-- rolled back at its end, and the table with it.
CREATE UNLOGGED TABLE {trial} AS
SELECT {columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {target} WITH NO DATA;
