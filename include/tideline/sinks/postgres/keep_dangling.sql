-- Keep only those records of a trial that were refused because a foreign key found no row. They are tried again, since
-- the rows that they refer to may have been inserted since.
DELETE FROM {trial} s USING {records} r
WHERE s.kafka_topic_id = r.kafka_topic_id AND s.kafka_partition = r.kafka_partition AND s.kafka_offset = r.kafka_offset
  AND r.state IS DISTINCT FROM %(state)s;
DROP TABLE {records};
