-- name: list_repeated
-- List the records that have two staged rows with the same key: none of the two is the newer one.
SELECT DISTINCT tideline_stream AS stream_id, kafka_offset
FROM {staging}
WHERE tideline_task = ANY (%(tasks)s)
GROUP BY tideline_stream, kafka_offset, {key} HAVING count(*) > 1
ORDER BY stream_id, kafka_offset;

-- name: lock_marks
-- Let only one transaction at a time publish into an upsert table. Each compares its records with the rows and deletions
-- that the others have committed. Published batches wait for one another here longer than for other locks, because a
-- large one takes a while.
SET LOCAL lock_timeout = '15min';
LOCK TABLE {marks} IN SHARE ROW EXCLUSIVE MODE;
SET LOCAL lock_timeout TO DEFAULT;

-- name: delete_replaced_marks
-- Delete the tombstones that a replay takes back, among those of its ranges: where the pipeline deletes no rows any more,
-- all of them; else those that were rejected this time. The others stay: Kafka may have removed their records, and without
-- them an older record would bring a deleted row back.
WITH ranges AS MATERIALIZED (
    SELECT stream_id, topic_id, partition, offsets, lower(offsets) AS start_offset, upper(offsets) AS end_offset
    FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
    WHERE batch_id = %(batch_id)s
), ours AS MATERIALIZED (
    SELECT o.batch_id FROM ranges r, tideline.reserving(r.stream_id, r.offsets) o
    UNION
    SELECT o.batch_id FROM ranges r, tideline.replaying(r.stream_id, r.offsets) o
)
DELETE FROM {marks} m USING ranges r
WHERE m.kafka_topic_id = r.topic_id AND m.kafka_partition = r.partition AND m.kafka_offset >= r.start_offset AND m.kafka_offset < r.end_offset
  AND m.tideline_batch IN (SELECT batch_id FROM ours)
  AND (NOT %(deletes)s
       OR EXISTS (SELECT FROM tideline.staged_reject j
                  WHERE j.attempt_id = %(attempt_id)s AND j.stream_id = r.stream_id AND j.kafka_offset = m.kafka_offset));

-- name: analyze_staging
-- Collect the statistics of staged rows, so that the joins with the output table are planned by their number.
ANALYZE {staging};

-- name: count_placed
-- Count the staged rows that belong to a record of the batch.
SELECT count(*) AS n_rows FROM ({placed}) AS s;

-- name: select_staged_keys
-- The keys of the rows that the winning tasks have staged. There is no semicolon, because another statement contains
-- this one.
SELECT {key}, tideline_stream FROM {staging} WHERE tideline_task = ANY (%(tasks)s)

-- name: select_unordered_keys
-- Those of staged keys that have a deletion without an order. There is no semicolon, because another statement contains
-- this one.
SELECT s.* FROM ({staged_keys}) AS s
WHERE EXISTS (SELECT FROM {paired} AS u WHERE u.tideline_task = ANY (%(tasks)s) AND {unordered} AND ({unordered_key}) = ({staged_key}))

-- name: pair_tombstones
-- Staged deletions, each with its order: a tombstone has that of a deletion of its key that lies directly before it, in
-- the same batch or in an earlier one. There is no semicolon, because other statements contain this one.
SELECT {staged_key}, {ordered}, s.tideline_stream, s.tideline_task, s.kafka_offset
FROM {staging} s
JOIN tideline.stream of ON of.stream_id = s.tideline_stream
LEFT JOIN {staging} before ON before.tideline_stream = s.tideline_stream AND before.kafka_offset = s.kafka_offset - 1
    AND before.tideline_task = ANY (%(tasks)s) AND ({before_key}) = ({staged_key})
LEFT JOIN {marks} m ON ({mark_key}) = ({staged_key}) AND m.kafka_topic_id = of.topic_id AND m.kafka_partition = of.partition
    AND m.kafka_offset = s.kafka_offset - 1

-- name: list_two_streams
-- Find a key whose staged records come from two streams of the batch.
SELECT a.topic, a.partition, b.topic AS other_topic, b.partition AS other_partition, NULL AS returned_topic_id
FROM (SELECT min(tideline_stream) AS one, max(tideline_stream) AS other
      FROM ({staged_keys}) AS s
      GROUP BY {staged_key} HAVING min(tideline_stream) <> max(tideline_stream) LIMIT 1) AS found
JOIN tideline.stream a ON a.stream_id = found.one JOIN tideline.stream b ON b.stream_id = found.other;

-- name: gather_newest
-- Create a table with the newest staged record of each key, beside what the output table and the table of deleted keys
-- have of this key, and whether one of these is newer. Where the order of one of two is null, because it is a deletion
-- that does not say it, their offsets are compared. Streams of a topic that was created again have larger ids, so the
-- smallest stream id of a topic id says which of two is newer. The columns of the rows are numbered here: the output table
-- may have a column with any name, also with one of those that this statement gives.
CREATE UNLOGGED TABLE {newest} AS
WITH incarnations AS MATERIALIZED (SELECT topic_id, min(stream_id) AS number FROM tideline.stream GROUP BY topic_id),
newest AS (
    SELECT {one_for_each_key} {numbered_columns}, s.kafka_topic_id, s.kafka_partition, s.kafka_offset, s.tideline_batch, i.number AS incarnation
    FROM ({placed}) AS s JOIN incarnations i ON i.topic_id = s.kafka_topic_id
    ORDER BY {staged_key}, {newest_first} i.number DESC, s.kafka_offset DESC, s.kafka_partition DESC
)
SELECT n.*, t.kafka_topic_id AS there_topic_id, t.kafka_partition AS there_partition, t.kafka_offset AS there_offset, t.tideline_batch AS there_batch,
       m.kafka_topic_id AS mark_topic_id, m.kafka_partition AS mark_partition, m.kafka_offset AS mark_offset,
       {is_unordered} AS is_unordered, {is_unordered} OR {is_mark_unordered} AS is_mark_unordered,
       coalesce(({there_order} coalesce(it.number, 0), t.kafka_offset, t.kafka_partition)
                >= ({newest_order} n.incarnation, n.kafka_offset, n.kafka_partition),
                (coalesce(it.number, 0), t.kafka_offset, t.kafka_partition)
                >= (n.incarnation, n.kafka_offset, n.kafka_partition), false) AS loses_to_row,
       coalesce(({mark_order} coalesce(im.number, 0), m.kafka_offset, m.kafka_partition)
                > ({newest_mark_order} n.incarnation, n.kafka_offset, n.kafka_partition),
                (coalesce(im.number, 0), m.kafka_offset, m.kafka_partition)
                > (n.incarnation, n.kafka_offset, n.kafka_partition), false) AS loses_to_mark
FROM newest n
LEFT JOIN {target} t ON ({there_key}) = ({newest_key})
LEFT JOIN incarnations it ON it.topic_id = t.kafka_topic_id
LEFT JOIN {marks} m ON ({mark_key}) = ({newest_key})
LEFT JOIN incarnations im ON im.topic_id = m.kafka_topic_id;

-- name: find_foreign
-- Find a row of the target that this batch would overwrite or lose against, but that no record of the ledger explains: its
-- topic id is unknown, or it has the coordinates of a record of the batch. Another writer has inserted it.
SELECT n.there_partition AS kafka_partition, n.there_offset AS kafka_offset, n.there_batch AS tideline_batch, other.pipeline
FROM {newest} n LEFT JOIN tideline.batch other ON other.batch_id = n.there_batch
WHERE n.there_topic_id IS NOT NULL
  AND (NOT EXISTS (SELECT FROM tideline.stream WHERE topic_id = n.there_topic_id)
       OR (n.there_topic_id, n.there_partition, n.there_offset) = (n.kafka_topic_id, n.kafka_partition, n.kafka_offset))
LIMIT 1;

-- name: list_incomparable
-- Find a key whose newest staged record cannot be compared with what is there: that is from another partition or another
-- topic. Streams of the same topic that was created again compare: the later one is newer. Unless a topic was given up and
-- then followed again: what was read of it since may be older or newer than what was read in between.
WITH topics AS MATERIALIZED (
    SELECT cluster_id, topic, topic_id, min(stream_id) AS number, min(returned_offset) AS returned_offset, max(returned_behind) AS returned_behind
    FROM tideline.stream GROUP BY cluster_id, topic, topic_id
),
found AS (
    SELECT kafka_topic_id, kafka_partition, kafka_offset, there_topic_id AS other_topic_id, there_partition AS other_partition,
           there_offset AS other_offset
    FROM {newest} WHERE is_unordered AND (there_topic_id <> kafka_topic_id OR there_partition <> kafka_partition)
    UNION ALL
    SELECT kafka_topic_id, kafka_partition, kafka_offset, mark_topic_id, mark_partition, mark_offset
    FROM {newest} WHERE is_mark_unordered AND (mark_topic_id <> kafka_topic_id OR mark_partition <> kafka_partition)
),
compared AS (
    SELECT f.*, a.topic, b.topic AS other_topic, a.cluster_id <> b.cluster_id OR a.topic <> b.topic OR a.topic_id = b.topic_id AS is_other,
           coalesce(f.kafka_offset >= a.returned_offset, false) AS is_later, coalesce(f.other_offset >= b.returned_offset, false) AS other_is_later,
           a.number, b.number AS other_number, a.returned_behind, b.returned_behind AS other_returned_behind
    FROM found f JOIN topics a ON a.topic_id = f.kafka_topic_id JOIN topics b ON b.topic_id = f.other_topic_id
)
SELECT topic, kafka_partition AS partition, other_topic, other_partition,
       CASE WHEN NOT is_other THEN CASE WHEN is_later THEN kafka_topic_id ELSE other_topic_id END END AS returned_topic_id
FROM compared
WHERE is_other
   OR is_later AND other_number <= returned_behind AND (other_number > number OR other_is_later)
   OR other_is_later AND number <= other_returned_behind AND (number > other_number OR is_later)
LIMIT 1;

-- name: drop_table
-- Drop a table that a publishing transaction has made for itself.
DROP TABLE {table};

-- name: place_redriven
-- The rows that the winning tasks of a re-drive have staged, with the coordinates of their records, as output of the
-- batches that had rejected these. Only rows of rejects that the attempt has read are returned, and each reject is
-- matched by its attempt id. There is no semicolon, because other statements contain this one.
SELECT {staged_columns}, stream.topic_id AS kafka_topic_id, stream.partition AS kafka_partition, s.kafka_offset, reject.batch_id AS tideline_batch
FROM {staging} s
JOIN (
    SELECT r.stream_id, one.kafka_offset, one.rejected_by
    FROM tideline.staged_redrive r CROSS JOIN LATERAL unnest(r.offsets, r.rejected_by) AS one (kafka_offset, rejected_by)
    WHERE r.attempt_id = %(attempt_id)s
) AS taken ON taken.stream_id = s.tideline_stream AND taken.kafka_offset = s.kafka_offset
JOIN tideline.reject ON reject.stream_id = taken.stream_id AND reject.kafka_offset = taken.kafka_offset AND reject.attempt_id = taken.rejected_by
JOIN tideline.stream ON stream.stream_id = reject.stream_id
WHERE s.tideline_task = ANY (%(tasks)s)

-- name: place_staged
-- The rows that the winning tasks of a batch have staged, with the coordinates of their records. Rows that belong to no
-- range of the batch are left out. There is no semicolon, because other statements contain this one.
SELECT {staged_columns}, stream.topic_id AS kafka_topic_id, stream.partition AS kafka_partition, s.kafka_offset, r.batch_id AS tideline_batch
FROM {staging} s
JOIN tideline.batch_range r ON r.stream_id = s.tideline_stream AND s.kafka_offset >= lower(r.offsets) AND s.kafka_offset < upper(r.offsets)
JOIN tideline.stream ON stream.stream_id = r.stream_id
WHERE r.batch_id = %(batch_id)s AND s.tideline_task = ANY (%(tasks)s)

-- name: mark_deleted
-- Remember the newest tombstone of each key. A tombstone that a replay has read again gets the replay's batch.
INSERT INTO {marks} AS m ({mark_columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_columns}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_mark
ON CONFLICT ({key}) DO UPDATE SET {mark_assignments};

-- name: delete_deleted
-- Delete the rows that are older than a tombstone of the batch.
DELETE FROM {target} t USING {newest} n WHERE ({there_key}) = ({newest_key}) AND NOT n.loses_to_row;

-- name: count_winning
-- Count the staged records of the winners that are newer than what is there.
SELECT count(*) AS n_rows FROM {newest} WHERE NOT loses_to_row AND NOT loses_to_mark;

-- name: upsert_newest
-- Insert the newest record of each key, or let it replace the row of the key, which is older.
INSERT INTO {target} ({columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
SELECT {newest_columns}, n.kafka_topic_id, n.kafka_partition, n.kafka_offset, n.tideline_batch FROM {newest} n
WHERE NOT n.loses_to_row AND NOT n.loses_to_mark
ORDER BY n.kafka_partition, n.kafka_offset, n.kafka_topic_id
{on_conflict};

-- name: create_marks
-- Create the table of deleted keys of an upsert pipeline: the key of the output table, its order where deletions have one,
-- and the coordinates of the newest deletion of each key.
CREATE TABLE {marks} AS
SELECT {mark_columns}, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM {target} WITH NO DATA;
ALTER TABLE {marks} ADD PRIMARY KEY ({key}), ALTER COLUMN kafka_topic_id SET NOT NULL, ALTER COLUMN kafka_partition SET NOT NULL,
    ALTER COLUMN kafka_offset SET NOT NULL, ALTER COLUMN tideline_batch SET NOT NULL;
COMMENT ON TABLE {marks} IS 'Tideline: the newest tombstone of each key. Without it an older record would bring a deleted row back.';
