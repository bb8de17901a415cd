-- Count the staged rows that belong to no record that the attempt has read: a transform may have changed the column `kafka`.
SELECT count(*) AS n_rows
FROM {staging} s
WHERE s.tideline_task = ANY (%(tasks)s) AND NOT EXISTS (
    SELECT FROM tideline.staged_count c
    WHERE c.attempt_id = %(attempt_id)s AND c.stream_id = s.tideline_stream AND s.kafka_offset BETWEEN c.first_read AND c.last_read);
