-- name: list_doubled
-- Find a staged record with two rows of one key. A table that is partitioned by a column of its key would accept both
-- rows, if they are in different partitions.
SELECT tideline_stream, kafka_offset FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY {key} HAVING count(*) > 1
LIMIT 1;
