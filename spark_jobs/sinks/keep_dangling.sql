-- The records of a trial that referred to no row, to be tried once more: what they refer to may be there by now.
DELETE FROM {trial} s USING {records} r
WHERE s.kafka_topic_id = r.kafka_topic_id AND s.kafka_partition = r.kafka_partition AND s.kafka_offset = r.kafka_offset
  AND r.state IS DISTINCT FROM %(state)s;
DROP TABLE {records};
