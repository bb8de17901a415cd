-- The records of a re-drive that have rows, per stream: each may be another batch's, so the ledger has to know them one by one.
SELECT tideline_stream AS stream_id, array_agg(DISTINCT kafka_offset) AS offsets
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
