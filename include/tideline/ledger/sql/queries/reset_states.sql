-- Delete the states of streams that begin anew after a gap, also those of earlier incarnations of their topics. States that the batch has left stay.
DELETE FROM tideline.state
WHERE pipeline = %(pipeline)s AND batch_id <> %(batch_id)s AND stream_id IN (
    SELECT s.stream_id FROM tideline.stream s JOIN tideline.stream anew USING (pipeline, topic, partition) WHERE anew.stream_id = ANY (%(stream_ids)s));
