-- Insert a stream for a partition that is seen for the first time. Its head is at its start.
INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset, leader_epoch)
VALUES (%(pipeline)s, %(cluster_id)s, %(topic)s, %(topic_id)s, %(partition)s, %(start_offset)s, %(start_offset)s, %(leader_epoch)s)
RETURNING stream_id;
