-- Count what the winning tasks have staged, per stream: rows, and the distinct offsets that they come from.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) AS n_written
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
