-- List the offsets of a re-drive that have rows, per stream. Each may belong to another batch, so the ledger needs them
-- one by one.
SELECT tideline_stream AS stream_id, array_agg(DISTINCT kafka_offset) AS offsets
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream;
