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
