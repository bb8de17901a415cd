-- Delete the rejects within a batch's ranges: the batch has read these records again.
DELETE FROM tideline.reject USING tideline.batch_range r
WHERE r.batch_id = %(batch_id)s AND reject.stream_id = r.stream_id AND r.offsets @> reject.kafka_offset;
