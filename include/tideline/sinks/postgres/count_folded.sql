-- Count what the winning tasks of a stateful pipeline have staged, per stream: rows, and the distinct offsets whose
-- records have made rows. The rows of timers make no record a written one.
SELECT tideline_stream AS stream_id, count(*) AS n_rows, count(DISTINCT kafka_offset) FILTER (WHERE NOT tideline_expired) AS n_written
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
