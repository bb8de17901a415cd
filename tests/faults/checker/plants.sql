-- For each law what breaks it, past triggers, and past constraints that are dropped for it: `-- law: what is planted`, then the laws that cannot hold
-- any more either. What comes before the first one is run before each.
--
-- There: in stream 1, which is retired, batch 9 owns all of its [40, 50) and batch 5 of its [28, 38); 8 is a backfill of [4, 8), before the start; the
-- replays 12 and 13 have taken offsets from each other, [50, 53) is a skipped hole, 2 was abandoned over [14, 18), and 11 is superseded. In stream 4, whose
-- offsets are missing where transactions end, batch 25 owns most of its [12, 20); 27 [20, 32) is planned, 28 [32, 44) is being written, 29 [44, 56)
-- has failed, 30 [56, 68) is published and waits, 31 [68, 80) is planned. Stream 5 ends at 13, and stream 6 is empty; of the incarnation 3 there are
-- records that no stream reads. %(good)s and the like are offsets of such records.
SET LOCAL session_replication_role = replica;
CREATE FUNCTION pg_temp.add_row(s bigint, at bigint, b bigint, item int DEFAULT 0) RETURNS void LANGUAGE sql AS $$
    INSERT INTO ads.output (id, item, name, price, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch)
    SELECT 1, item, 'planted', 1.5, topic_id, partition, at, b FROM tideline.stream WHERE stream_id = s $$;
CREATE FUNCTION pg_temp.add_reject(s bigint, at bigint, b bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, step, reason, attempt_id)
    SELECT s, at, b, 'decode', 'planted', attempt_id FROM tideline.batch JOIN tideline.attempt USING (attempt) WHERE batch.batch_id = b $$;
CREATE FUNCTION pg_temp.recount(b bigint, written int, rejected int, filtered int) RETURNS void LANGUAGE sql AS $$
    UPDATE tideline.batch_range SET n_written = n_written + written, n_rejected = n_rejected + rejected, n_filtered = n_filtered + filtered
    WHERE batch_id = b AND stream_id = 1 $$;
CREATE FUNCTION pg_temp.change(b bigint, s bigint, was text, becomes text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tideline.event (action, pipeline, batch_id, stream_id, from_state, to_state)
    VALUES ('planted', 'harness', b, s, was, becomes) $$;
CREATE FUNCTION pg_temp.move(s bigint, was int, becomes int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tideline.event (action, pipeline, stream_id, detail)
    VALUES ('move head', 'harness', s, jsonb_build_object('from', was, 'to', becomes)) $$;
CREATE FUNCTION pg_temp.share(s bigint, at int8range, b bigint) RETURNS void LANGUAGE sql AS $$
    INSERT INTO tideline.pipeline (pipeline) VALUES ('other');
    INSERT INTO tideline.batch OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(batch, jsonb_build_object('batch_id', 900, 'pipeline', 'other', 'identity', gen_random_uuid()))).*
    FROM tideline.batch WHERE batch_id = b;
    INSERT INTO tideline.stream OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(stream, jsonb_build_object('stream_id', 900, 'pipeline', 'other'))).*
    FROM tideline.stream WHERE stream_id = s;
    INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (900, at, 900) $$;

-- lost: a lost write
DELETE FROM ads.output WHERE tideline_batch = 9 AND kafka_offset = %(good)s;
SELECT pg_temp.recount(9, -1, 0, 1);

-- lost: a reject
DELETE FROM tideline.reject WHERE batch_id = 9 AND kafka_offset = %(broken)s;
SELECT pg_temp.recount(9, 0, -1, 1);

-- lost: one of two rows
DELETE FROM ads.output WHERE tideline_batch = 5 AND kafka_offset = %(double)s AND item = 1;

-- doubled: a duplicate in the output
ALTER TABLE ads.output DROP CONSTRAINT output_pkey;
INSERT INTO ads.output SELECT * FROM ads.output WHERE tideline_batch = 9 AND kafka_offset = %(good)s;

-- doubled: in the output and in the rejects
SELECT pg_temp.add_row(1, %(broken)s, 9);
SELECT pg_temp.recount(9, 1, 0, -1);

-- doubled: a good record in the rejects as well
SELECT pg_temp.add_reject(1, %(good)s, 9);
SELECT pg_temp.recount(9, 0, 1, -1);

-- doubled: a duplicate in the rejects
ALTER TABLE tideline.reject DROP CONSTRAINT reject_pkey;
SELECT pg_temp.add_reject(1, %(broken)s, 9);

-- invented: a row where a transaction ends
SELECT pg_temp.add_row(4, %(marker)s, 25);

-- invented: a reject where a transaction ends
SELECT pg_temp.add_reject(4, %(marker)s, 25);

-- invented: a row of a topic that no stream follows
SELECT pg_temp.add_row(1, %(good)s, 9, 7);
UPDATE ads.output SET kafka_topic_id = gen_random_uuid() WHERE name = 'planted';

-- altered: a value
UPDATE ads.output SET price = price + 0.0001 WHERE tideline_batch = 9 AND kafka_offset = %(good)s;

-- altered: one row too many
SELECT pg_temp.add_row(1, %(good)s, 9, 7);

-- altered: the value of a reject
UPDATE tideline.reject SET value = value || '\x00'::bytea WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- altered: the absent key of a reject
UPDATE tideline.reject SET key = CASE WHEN key IS NULL THEN ''::bytea END WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- altered: the timestamp of a reject
UPDATE tideline.reject SET kafka_timestamp_ms = kafka_timestamp_ms + 1 WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- altered: the headers of a reject
UPDATE tideline.reject SET headers = '[{"key": "source"}]' WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- altered: the unreadable headers of a reject
UPDATE tideline.reject SET headers = '[{' WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- wrong fate: a row of a record that should have been filtered
SELECT pg_temp.add_row(1, %(filtered)s, 9);
SELECT pg_temp.recount(9, 1, 0, -1);

-- wrong fate: a reject of a good record
DELETE FROM ads.output WHERE tideline_batch = 9 AND kafka_offset = %(good)s;
SELECT pg_temp.add_reject(1, %(good)s, 9);
SELECT pg_temp.recount(9, -1, 1, 0);

-- unpublished: an aborted read of a planned batch
SELECT pg_temp.add_row(4, %(planned)s, 27);

-- unpublished: an aborted read of a batch that is being written
SELECT pg_temp.add_row(4, %(writing)s, 28);

-- unpublished: a reject of a batch that has failed
SELECT pg_temp.add_reject(4, %(failed)s, 29);

-- unpublished: a row of an abandoned batch
UPDATE ads.output SET tideline_batch = 2 WHERE tideline_batch = 9 AND kafka_offset = %(good)s;

-- unpublished: a row of no batch
UPDATE ads.output SET tideline_batch = 0 WHERE tideline_batch = 9 AND kafka_offset = %(good)s;

-- out of place: a row of another batch
UPDATE ads.output SET tideline_batch = 10 WHERE tideline_batch = 9 AND kafka_offset = %(good)s;

-- out of place: a reject of another batch
UPDATE tideline.reject SET batch_id = 10 WHERE batch_id = 9 AND kafka_offset = %(broken)s;

-- out of place: a row in a hole
SELECT pg_temp.add_row(1, 51, 9);

-- out of place: a row at offsets that no batch has loaded
SELECT pg_temp.add_row(1, 2, 8);

-- out of place: a reject behind everything
SELECT pg_temp.add_reject(4, 5000, 30);

-- out of place: a row right behind everything
SELECT pg_temp.add_row(4, 68, 30);

-- foreign: a row that another pipeline has not put there
SELECT pg_temp.share(1, '[0,4)', 9);
SELECT pg_temp.add_row(1, 2, 900), pg_temp.add_row(1, 4, 900, 1);

-- miscounted: written and filtered
SELECT pg_temp.recount(9, -1, 0, 1);

-- miscounted: a gap where a record is
UPDATE tideline.batch_range SET n_gap = 1, n_read = n_read - 1, n_filtered = n_filtered - 1 WHERE batch_id = 9;

-- gap: a hole that is gone
DELETE FROM tideline.coverage WHERE stream_id = 1 AND offsets = '[50, 53)';

-- gap: a batch that is gone
-- also: out of place, superseded
DELETE FROM tideline.coverage WHERE batch_id = 9;

-- overlap: two holes
ALTER TABLE tideline.coverage DROP CONSTRAINT one_owner_in_output;
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (1, '[51, 52)', 'lost', 'planted', 'test');

-- forgotten: what a backfill has loaded
UPDATE tideline.coverage SET offsets = '[4, 7)' WHERE batch_id = 8;
DELETE FROM ads.output WHERE tideline_batch = 8 AND kafka_offset = 7;
DELETE FROM tideline.reject WHERE batch_id = 8 AND kafka_offset = 7;

-- forgotten: what is published ahead of the head
UPDATE tideline.coverage SET offsets = '[57, 68)' WHERE batch_id = 30;
DELETE FROM ads.output WHERE tideline_batch = 30 AND kafka_offset = 56;
DELETE FROM tideline.reject WHERE batch_id = 30 AND kafka_offset = 56;

-- owner: offsets outside of the batch's range
INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (4, int8range(%(beyond_marker)s, %(beyond_marker)s, '[]'), 25);

-- owner: a batch that is not published
INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (4, int8range(%(planned_marker)s, %(planned_marker)s, '[]'), 27);

-- owner: a batch that has nothing of the stream
INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (6, int8range(%(marker_of_the_third)s, %(marker_of_the_third)s, '[]'), 9);

-- owner: neither a batch nor a hole
ALTER TABLE tideline.coverage DROP CONSTRAINT batch_or_hole;
INSERT INTO tideline.coverage (stream_id, offsets) VALUES (4, int8range(%(planned_marker)s, %(planned_marker)s, '[]'));

-- owner: a re-drive
UPDATE tideline.batch SET kind = 'redrive' WHERE batch_id = 30;
UPDATE tideline.batch_range SET reserves = false WHERE batch_id = 30;

-- usurped: a hole over what is loaded
UPDATE tideline.coverage SET offsets = int8range(40, %(filtered)s) WHERE batch_id = 9;
INSERT INTO tideline.coverage (stream_id, offsets, batch_id) VALUES (1, int8range(%(filtered)s + 1, 50), 9);
INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (1, int8range(%(filtered)s, %(filtered)s, '[]'), 'lost', 'planted', 'test');

-- usurped: an earlier replay over a later one
UPDATE tideline.coverage SET offsets = '[18, 20)' WHERE batch_id = 13;
UPDATE tideline.coverage SET offsets = '[20, 26)' WHERE batch_id = 12;
UPDATE ads.output SET tideline_batch = 12 WHERE tideline_batch = 13 AND kafka_offset >= 20;
UPDATE tideline.reject SET batch_id = 12 WHERE batch_id = 13 AND kafka_offset >= 20;

-- superseded: a batch that still owns something
UPDATE tideline.batch SET state = 'superseded' WHERE batch_id = 9;
SELECT pg_temp.change(9, NULL, 'advanced', 'superseded');

-- superseded: a batch that owns nothing
UPDATE tideline.batch SET state = 'advanced' WHERE batch_id = 11;
DELETE FROM tideline.event WHERE batch_id = 11 AND to_state = 'superseded';

-- hole: without a reason
ALTER TABLE tideline.coverage DROP CONSTRAINT holes_have_a_name;
UPDATE tideline.coverage SET reason = NULL WHERE stream_id = 1 AND offsets = '[50, 53)';

-- hole: without a name
ALTER TABLE tideline.coverage DROP CONSTRAINT holes_have_a_name;
UPDATE tideline.coverage SET decided_by = NULL WHERE stream_id = 1 AND offsets = '[50, 53)';

-- twins: two streams of one partition
ALTER TABLE tideline.stream DROP CONSTRAINT stream_pipeline_cluster_id_topic_id_partition_key;
INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset) SELECT pipeline, cluster_id, topic, topic_id, partition, 0, 0 FROM tideline.stream WHERE stream_id = 6;
SELECT pg_temp.change(NULL, max(stream_id), NULL, 'active') FROM tideline.stream;

-- head behind start: a start that was moved
-- also: head history
ALTER TABLE tideline.stream DROP CONSTRAINT stream_check;
UPDATE tideline.stream SET start_offset = 5 WHERE stream_id = 6;

-- head beyond coverage: inconsistent offsets
UPDATE tideline.stream SET next_offset = 16 WHERE stream_id = 5;
SELECT pg_temp.move(5, 13, 16);

-- head beyond coverage: coverage goes on where the head stands
UPDATE tideline.stream SET next_offset = 56 WHERE stream_id = 4;
SELECT pg_temp.move(4, 20, 56);

-- head moved back: a head that is not monotonic
SELECT pg_temp.move(5, 13, 11);
SELECT pg_temp.move(5, 11, 13);

-- head moved back: a move that is none
SELECT pg_temp.move(5, 13, 13);

-- head history: a move that is missing
DELETE FROM tideline.event WHERE event_id = (SELECT min(event_id) FROM tideline.event WHERE action = 'move head' AND stream_id = 1);

-- head history: a head that was set by hand
UPDATE tideline.stream SET next_offset = 79 WHERE stream_id = 1;

-- advanced early: a head that has not passed
UPDATE tideline.stream SET next_offset = 12 WHERE stream_id = 5;
DELETE FROM tideline.event WHERE action = 'move head' AND stream_id = 5;
SELECT pg_temp.move(5, 0, 12);

-- counts: before it is published
UPDATE tideline.batch_range SET n_read = 0, n_written = 0, n_rejected = 0, n_filtered = 0, n_gap = 12, published_log_start = 0, published_end = 90 WHERE batch_id = 28;

-- counts: none
UPDATE tideline.batch_range SET n_read = NULL, n_written = NULL, n_rejected = NULL, n_filtered = NULL, n_gap = NULL, published_log_start = NULL, published_end = NULL WHERE batch_id = 12;

-- counts: a record that became nothing
ALTER TABLE tideline.batch_range DROP CONSTRAINT counts_add_up;
UPDATE tideline.batch_range SET n_written = n_written - 1 WHERE batch_id = 12;

-- counts: an offset that was not read
ALTER TABLE tideline.batch_range DROP CONSTRAINT offsets_add_up;
UPDATE tideline.batch_range SET n_written = n_written - 1, n_read = n_read - 1 WHERE batch_id = 12;

-- counts: gaps that are not allowed
ALTER TABLE tideline.batch_range DROP CONSTRAINT gaps_are_allowed;
UPDATE tideline.batch_range SET gaps_allowed = false WHERE batch_id = 23;

-- reserved: given back
UPDATE tideline.batch_range SET reserves = false WHERE batch_id = 9;

-- reserved: by a replay
-- also: reserved twice
ALTER TABLE tideline.batch_range DROP CONSTRAINT one_owner_per_offset;
UPDATE tideline.batch_range SET reserves = true WHERE batch_id = 26;

-- reserved twice: by two batches
ALTER TABLE tideline.batch_range DROP CONSTRAINT one_owner_per_offset;
UPDATE tideline.batch_range SET offsets = '[67, 80)' WHERE batch_id = 31;

-- illegal transition: a batch
SELECT pg_temp.change(9, NULL, 'advanced', 'published');
SELECT pg_temp.change(9, NULL, 'published', 'advanced');

-- illegal transition: a stream
SELECT pg_temp.change(NULL, 1, 'retired', 'active');
SELECT pg_temp.change(NULL, 1, 'active', 'retired');

-- broken chain: no beginning
DELETE FROM tideline.event WHERE batch_id = 9 AND to_state = 'planned';

-- broken chain: a change that is missing
DELETE FROM tideline.event WHERE batch_id = 9 AND to_state = 'published';

-- broken chain: no history
DELETE FROM tideline.event WHERE batch_id = 2;

-- broken chain: a stream's
DELETE FROM tideline.event WHERE stream_id = 2 AND action = 'resume';

-- state: of a batch
UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = 27;
UPDATE tideline.batch_range SET reserves = false WHERE batch_id = 27;

-- state: of a stream
UPDATE tideline.stream SET state = 'active' WHERE stream_id = 1;

-- fence: raised without an attempt
UPDATE tideline.batch SET fence = fence + 1 WHERE batch_id = 9;

-- fence: an attempt that is gone
DELETE FROM tideline.attempt WHERE batch_id = 1 AND fence = 1;

-- fence: not the newest attempt
-- also: winner, announced twice
UPDATE tideline.batch SET attempt = (SELECT attempt FROM tideline.attempt WHERE batch_id = 1 AND fence = 1) WHERE batch_id = 1;

-- fence: an attempt without a claim
UPDATE tideline.event SET attempt = gen_random_uuid() WHERE batch_id = 9 AND action = 'claim';

-- winner: none
UPDATE tideline.attempt SET outcome = 'failed' WHERE batch_id = 9;

-- winner: two
UPDATE tideline.attempt SET outcome = 'published' WHERE batch_id = 1 AND fence = 1;

-- winner: too early
UPDATE tideline.attempt SET outcome = 'published' WHERE batch_id = 29;

-- open attempt: of a batch that has failed
UPDATE tideline.attempt SET ended_at = NULL, outcome = NULL WHERE batch_id = 29;

-- open attempt: none of a batch that is being written
UPDATE tideline.attempt SET ended_at = now(), outcome = 'failed' WHERE batch_id = 28;

-- open attempt: two that write
INSERT INTO tideline.attempt (batch_id, fence, dag_id, run_id, task_id, try_number, host, pid) VALUES (28, 2, 'd', 'r', 't', 1, 'h', 1);
UPDATE tideline.batch SET fence = 2, attempt = (SELECT attempt FROM tideline.attempt WHERE batch_id = 28 AND fence = 2) WHERE batch_id = 28;
INSERT INTO tideline.event (action, pipeline, batch_id, attempt, from_state, to_state)
    SELECT 'claim', 'harness', 28, attempt, 'writing', 'writing' FROM tideline.batch WHERE batch_id = 28;

-- open attempt: an end without an outcome
ALTER TABLE tideline.attempt DROP CONSTRAINT attempt_check;
UPDATE tideline.attempt SET outcome = NULL WHERE batch_id = 29;

-- outbox: a published batch that is not in it
DELETE FROM tideline.outbox WHERE batch_id = 9;

-- outbox: a batch that was never written
INSERT INTO tideline.outbox (batch_id, pipeline) VALUES (27, 'harness');

-- outbox: marked as announced too early
UPDATE tideline.outbox SET announced_at = now() WHERE batch_id = 30;

-- settled: a batch inside that names a writer
ALTER TABLE tideline.batch DROP CONSTRAINT only_outside_is_sealed_and_settled;
UPDATE tideline.batch SET written_by = (SELECT attempt_id FROM tideline.attempt WHERE batch_id = 9 AND outcome = 'published') WHERE batch_id = 9;

-- settled: a published batch outside that names none
ALTER TABLE tideline.batch DROP CONSTRAINT outside_names_its_writer;
UPDATE tideline.batch SET outside = true WHERE batch_id = 9;

-- committed: by another attempt
CREATE TABLE ads.outside_commit (batch_id bigint, attempt uuid, n_rows bigint);
UPDATE tideline.batch SET outside = true, written_by = (SELECT attempt_id FROM tideline.attempt WHERE batch_id = 9 AND outcome = 'published') WHERE batch_id = 9;
INSERT INTO ads.outside_commit VALUES (9, gen_random_uuid(), 1);

-- committed: published, and nothing is visible
CREATE TABLE ads.outside_commit (batch_id bigint, attempt uuid, n_rows bigint);
UPDATE tideline.batch SET outside = true, written_by = (SELECT attempt_id FROM tideline.attempt WHERE batch_id = 9 AND outcome = 'published') WHERE batch_id = 9;

-- committed: visible, and abandoned
CREATE TABLE ads.outside_commit (batch_id bigint, attempt uuid, n_rows bigint);
UPDATE tideline.batch SET outside = true WHERE batch_id = 2;
INSERT INTO ads.outside_commit VALUES (2, gen_random_uuid(), 1);

-- committed: twice
CREATE TABLE ads.outside_commit (batch_id bigint, attempt uuid, n_rows bigint);
UPDATE tideline.batch SET outside = true, written_by = (SELECT attempt_id FROM tideline.attempt WHERE batch_id = 9 AND outcome = 'published') WHERE batch_id = 9;
INSERT INTO ads.outside_commit SELECT 9, attempt, 1 FROM tideline.attempt, generate_series(1, 2) WHERE batch_id = 9 AND outcome = 'published';

-- unsettled: visible, and in no ledger
CREATE TABLE ads.outside_commit (batch_id bigint, attempt uuid, n_rows bigint);
INSERT INTO ads.outside_commit VALUES (4711, gen_random_uuid(), 1);

-- announced twice: one batch
INSERT INTO ads.asset_event SELECT * FROM ads.asset_event WHERE batch_id = 9;

-- announced twice: a batch that was never written
INSERT INTO ads.asset_event VALUES (27, gen_random_uuid());

-- announced twice: by an attempt that has not published
UPDATE ads.asset_event SET attempt = (SELECT attempt FROM tideline.attempt WHERE batch_id = 1 AND fence = 1) WHERE batch_id = 1;

-- unannounced: a batch that was published
DELETE FROM ads.asset_event WHERE batch_id = 9;
UPDATE tideline.outbox SET announced_at = NULL WHERE batch_id = 9;

-- jammed: a batch that waits
UPDATE tideline.batch SET state = 'published' WHERE batch_id = 8;
DELETE FROM tideline.event WHERE batch_id = 8 AND to_state = 'advanced';

-- jammed: a stream that is stopped
UPDATE tideline.stream SET state = 'stopped', stopped_because = 'planted' WHERE stream_id = 6;
SELECT pg_temp.change(NULL, 6, 'active', 'stopped');

-- unread: a head before the end
-- also: unfollowed
UPDATE tideline.stream SET topic_id = '00000000-0000-0000-0000-000000000003' WHERE stream_id = 6;

-- unfollowed: a stream that is gone
DELETE FROM tideline.stream WHERE stream_id = 6;
