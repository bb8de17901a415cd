-- The rows that a batch would insert, put aside to be tried one record after the other. Gone at the end of the transaction, which is rolled back.
CREATE UNLOGGED TABLE {trial} AS
SELECT {columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {target} WITH NO DATA;
