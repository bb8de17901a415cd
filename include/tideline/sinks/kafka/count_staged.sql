-- Count what the winning tasks have staged, per stream: rows, the distinct offsets that they come from, and the rows that are no other
-- row's twin. Two rows of one record with the same item would have the same origin.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) AS n_written,
    count(DISTINCT (kafka_offset, item_order)) AS n_origins
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
