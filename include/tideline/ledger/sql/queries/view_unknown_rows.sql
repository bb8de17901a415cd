-- Streams of a pipeline for which the output table holds a row, at or above the head, that no batch of the ledger has
-- written there; each with the first such offset. This is so after the ledger is restored without its tables. Rows
-- below the heads are not compared: every offset there has an owner, and the comparison would read all rows.
SELECT s.topic, s.partition, first_one.kafka_offset, first_one.tideline_batch
FROM tideline.stream s CROSS JOIN LATERAL (
    SELECT t.kafka_offset, t.tideline_batch FROM {table} t
    WHERE t.kafka_topic_id = s.topic_id AND t.kafka_partition = s.partition AND t.kafka_offset >= s.next_offset
      AND NOT EXISTS (
        SELECT FROM tideline.batch b JOIN tideline.batch_range r USING (batch_id) JOIN tideline.stream o USING (stream_id)
        WHERE b.batch_id = t.tideline_batch AND b.state IN ('published', 'advanced', 'superseded')
          AND o.topic_id = t.kafka_topic_id AND o.partition = t.kafka_partition AND r.offsets @> t.kafka_offset)
    ORDER BY t.kafka_offset LIMIT 1) AS first_one
WHERE s.pipeline = %(pipeline)s AND s.state <> 'retired'
ORDER BY s.topic, s.partition;
