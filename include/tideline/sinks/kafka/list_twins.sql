-- List the records of which two staged rows have the same item.
SELECT DISTINCT tideline_stream AS stream_id, kafka_offset, item
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream, kafka_offset, item_order, item
HAVING count(*) > 1;
