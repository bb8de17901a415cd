-- name: send_staged
-- Read the rows of the winning tasks in the order in which they are sent: as they were read, and the rows of one record by their item.
SELECT tideline_stream, kafka_offset, item, key, value {headers}
FROM {staging}
WHERE tideline_task = ANY ({tasks})
ORDER BY tideline_stream, kafka_offset, item_order
