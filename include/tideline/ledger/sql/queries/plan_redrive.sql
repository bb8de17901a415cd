-- Which rejects a re-drive takes: those of a pipeline that were chosen and that no open re-drive has, oldest coordinates first. -> how many.
INSERT INTO tideline.redrive (batch_id, stream_id, kafka_offset)
SELECT %(batch_id)s, c.stream_id, c.kafka_offset FROM unnest(%(stream_ids)s::bigint[], %(offsets)s::bigint[]) AS c (stream_id, kafka_offset);
