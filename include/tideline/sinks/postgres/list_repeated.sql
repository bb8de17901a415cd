-- List the records that have two staged rows with the same key: none of the two is the newer one.
SELECT DISTINCT tideline_stream AS stream_id, kafka_offset
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream, kafka_offset, {key} HAVING count(*) > 1
ORDER BY stream_id, kafka_offset;
