-- Of what the winning tasks staged, per stream: all rows; rows and offsets of records that are not rejected.
SELECT stream_id, count(*) AS n_staged,
       count(*) FILTER (WHERE NOT is_reject) AS n_rows,
       count(DISTINCT kafka_offset) FILTER (WHERE NOT is_reject) AS n_written
FROM (
    SELECT s.tideline_stream AS stream_id, s.kafka_offset, r.kafka_offset IS NOT NULL AS is_reject
    FROM {staging} s LEFT JOIN tideline.staged_reject r
        ON r.attempt_id = %(attempt_id)s AND r.stream_id = s.tideline_stream AND r.kafka_offset = s.kafka_offset
    WHERE s.tideline_task = ANY (%(tasks)s)
) staged
GROUP BY stream_id;
