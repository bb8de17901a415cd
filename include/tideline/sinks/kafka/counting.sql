-- name: count_staged
-- Count what the winning tasks have staged, per stream: rows, the distinct offsets that they come from, and the rows that are no other
-- row's twin. Two rows of one record with the same item would have the same origin.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) AS n_written,
    count(DISTINCT (kafka_offset, item_order)) AS n_origins
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;

-- name: list_twins
-- List the records of which two staged rows have the same item.
SELECT DISTINCT tideline_stream AS stream_id, kafka_offset, item
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream, kafka_offset, item_order, item
HAVING count(*) > 1;

-- name: count_foreign
-- Count the staged rows that belong to no record that the attempt has read: a transform may have changed the column `kafka`.
SELECT count(*) AS n_rows
FROM {staging} s
WHERE s.tideline_task = ANY (%(tasks)s) AND NOT EXISTS (
    SELECT FROM tideline.staged_count c
    WHERE c.attempt_id = %(attempt_id)s AND c.stream_id = s.tideline_stream AND s.kafka_offset BETWEEN c.first_read AND c.last_read);
