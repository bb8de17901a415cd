-- Find a key whose staged records come from two streams of the batch.
SELECT a.topic, a.partition, b.topic AS other_topic, b.partition AS other_partition, NULL AS returned_topic_id
FROM (SELECT min(tideline_stream) AS one, max(tideline_stream) AS other
      FROM ({staged_keys}) AS s
      GROUP BY {staged_key} HAVING min(tideline_stream) <> max(tideline_stream) LIMIT 1) AS found
JOIN tideline.stream a ON a.stream_id = found.one JOIN tideline.stream b ON b.stream_id = found.other;
