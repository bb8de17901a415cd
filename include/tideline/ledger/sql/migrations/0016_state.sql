-- State: what a processor keeps for each key, folded in the order of offsets. The law: after every commit the state of a stream is the fold over
-- exactly the loaded records before its position. State, undo and positions change in the one transaction that publishes a batch, or rewinds some.

ALTER TYPE tideline.hole ADD VALUE 'rewound';

ALTER TABLE tideline.batch
    ADD COLUMN stateful boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT state_is_folded_in_order CHECK (NOT stateful OR kind IN ('live', 'backfill') AND NOT outside);
COMMENT ON COLUMN tideline.batch.stateful IS 'whether its records are folded into the state of its pipeline';

-- Each return to an earlier batch, and why. A row is never changed or deleted.
CREATE TABLE tideline.rewind (
    rewind_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    to_batch bigint REFERENCES tideline.batch,
    reason text NOT NULL CHECK (reason <> ''),
    decided_by text NOT NULL DEFAULT current_setting('tideline.actor'),
    at timestamptz NOT NULL DEFAULT now(),
    decided_in xid8 NOT NULL DEFAULT pg_current_xact_id()
);
COMMENT ON COLUMN tideline.rewind.to_batch IS 'the last batch that stays folded; null for none';
CREATE INDEX rewind_pipeline ON tideline.rewind (pipeline, rewind_id);

CREATE TABLE tideline.state_batch (
    batch_id bigint PRIMARY KEY REFERENCES tideline.batch,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    seq bigint NOT NULL CHECK (seq > 0),
    processor text NOT NULL CHECK (processor <> ''),
    n_keys bigint NOT NULL CHECK (n_keys >= 0),
    n_expired bigint NOT NULL CHECK (n_expired >= 0),
    undo text NOT NULL DEFAULT 'kept' CHECK (undo IN ('kept', 'pruned', 'applied')),
    UNIQUE (pipeline, seq)
);
COMMENT ON TABLE tideline.state_batch IS 'the batches that are folded into the state of a pipeline, in order';
COMMENT ON COLUMN tideline.state_batch.processor IS 'the version of the processor that has folded it';
COMMENT ON COLUMN tideline.state_batch.undo IS 'what became of its undo: a rewind can apply it as long as it is kept';
CREATE INDEX state_batch_kept ON tideline.state_batch (pipeline, seq) WHERE undo = 'kept';

CREATE TABLE tideline.state_position (
    stream_id bigint PRIMARY KEY REFERENCES tideline.stream,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    max_time timestamptz,
    version bigint NOT NULL CHECK (version > 0),
    batch_id bigint REFERENCES tideline.state_batch
);
COMMENT ON TABLE tideline.state_position IS 'how far each stream is folded';
COMMENT ON COLUMN tideline.state_position.max_time IS 'the largest event time that was folded; the watermark is that less the lateness';
COMMENT ON COLUMN tideline.state_position.version IS 'counts every change, also back';
COMMENT ON COLUMN tideline.state_position.batch_id IS 'the batch that was folded last; null before the first one';
CREATE INDEX state_position_pipeline ON tideline.state_position (pipeline);

-- Without foreign keys: a batch may change half a million rows. Triggers ask once for each statement.
CREATE TABLE tideline.state (
    pipeline text NOT NULL,
    key text NOT NULL COLLATE "C" CHECK (key <> ''),
    stream_id bigint NOT NULL,
    value jsonb NOT NULL CHECK (jsonb_typeof(value) = 'object'),
    expires_at timestamptz,
    kafka_offset bigint NOT NULL,
    batch_id bigint NOT NULL,
    PRIMARY KEY (pipeline, key)
);
COMMENT ON COLUMN tideline.state.key IS 'the values of the key columns, as a JSON array';
COMMENT ON COLUMN tideline.state.stream_id IS 'the stream of the last record that was folded for this key';
COMMENT ON COLUMN tideline.state.kafka_offset IS 'the offset of that record';
COMMENT ON COLUMN tideline.state.batch_id IS 'the batch that has changed it last';
CREATE INDEX state_timer ON tideline.state (stream_id, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE tideline.state_undo (
    batch_id bigint NOT NULL,
    key text NOT NULL COLLATE "C",
    existed boolean NOT NULL,
    stream_id bigint,
    value jsonb,
    expires_at timestamptz,
    kafka_offset bigint,
    of_batch bigint,
    PRIMARY KEY (batch_id, key)
);
COMMENT ON TABLE tideline.state_undo IS 'the state of each key before a batch that has changed it';

CREATE TABLE tideline.state_position_undo (
    batch_id bigint NOT NULL REFERENCES tideline.state_batch,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    next_offset bigint NOT NULL,
    max_time timestamptz,
    of_batch bigint,
    PRIMARY KEY (batch_id, stream_id)
);

CREATE TABLE tideline.state_columns (
    pipeline text PRIMARY KEY REFERENCES tideline.pipeline,
    key_columns jsonb NOT NULL CHECK (jsonb_typeof(key_columns) = 'array'),
    columns jsonb NOT NULL CHECK (jsonb_typeof(columns) = 'object')
);
COMMENT ON TABLE tideline.state_columns IS 'which columns the stored states have: a changed type is refused before anything is read';
COMMENT ON COLUMN tideline.state_columns.columns IS 'by name, the type and the former names; columns that are gone stay, as old states still have them';

-- The batch that this transaction folds, and the one whose undo it has to apply next. A row of state_batch is there while its batch is being written
-- only in the transaction that publishes it.
CREATE FUNCTION tideline.folding(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT batch_id FROM tideline.batch JOIN tideline.state_batch USING (batch_id) WHERE batch.pipeline = name AND batch.state = 'writing'
$$;
CREATE FUNCTION tideline.undoing(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT batch_id FROM tideline.state_batch
    WHERE pipeline = name AND undo = 'kept' AND EXISTS (
        SELECT FROM tideline.rewind WHERE rewind.pipeline = name AND at = now() AND decided_in = pg_current_xact_id())
    ORDER BY seq DESC LIMIT 1
$$;

CREATE FUNCTION tideline.record_rewind() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tideline.event (action, pipeline, batch_id, detail)
    VALUES ('rewind', NEW.pipeline, NEW.to_batch, jsonb_build_object('reason', NEW.reason));
    RETURN NULL;
END $$;
CREATE TRIGGER rewind_writes_its_history AFTER INSERT ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.record_rewind();
CREATE TRIGGER rewind_never_changes BEFORE UPDATE OR DELETE ON tideline.rewind FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER rewind_is_never_truncated BEFORE TRUNCATE ON tideline.rewind FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Batches --------------------------------------------------------------------------------------------------------------------------------------------

-- A record that is loaded again is folded again, at the wrong place. A pipeline with state goes back, or not at all.
CREATE FUNCTION tideline.check_new_stateful() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_position WHERE pipeline = NEW.pipeline) THEN
        RAISE EXCEPTION 'pipeline % has a state: a % would load records that are folded already', NEW.pipeline, NEW.kind
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER nothing_is_folded_twice BEFORE INSERT ON tideline.batch
    FOR EACH ROW WHEN (NEW.kind NOT IN ('live', 'backfill')) EXECUTE FUNCTION tideline.check_new_stateful();

CREATE FUNCTION tideline.check_folded() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.stateful <> OLD.stateful THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'published' AND OLD.state <> 'published' AND EXISTS (
        SELECT FROM tideline.batch_range r
        WHERE r.batch_id = NEW.batch_id AND NOT EXISTS (
            SELECT FROM tideline.state_position p JOIN tideline.state_position_undo u USING (stream_id, batch_id)
            WHERE p.stream_id = r.stream_id AND p.batch_id = NEW.batch_id AND p.next_offset = upper(r.offsets))) THEN
        RAISE EXCEPTION 'batch %: it is published with the state of all its records, or not at all', NEW.batch_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'superseded' AND OLD.state <> 'superseded' AND NOT EXISTS (
        SELECT FROM tideline.state_batch WHERE batch_id = NEW.batch_id AND undo = 'applied') THEN
        RAISE EXCEPTION 'batch %: it is folded into the state, which was not rewound', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_moves_with_its_state BEFORE UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.stateful OR OLD.stateful) EXECUTE FUNCTION tideline.check_folded();

CREATE FUNCTION tideline.release_rewound() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE tideline.batch_range SET reserves = false WHERE batch_id = NEW.batch_id AND reserves;
    RETURN NULL;
END $$;
CREATE TRIGGER rewound_offsets_are_free AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.stateful AND NEW.state = 'superseded' AND OLD.state <> 'superseded') EXECUTE FUNCTION tideline.release_rewound();

CREATE FUNCTION tideline.check_state_batch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.undo <> 'kept' OR NOT EXISTS (
            SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND pipeline = NEW.pipeline AND stateful AND state = 'writing') THEN
            RAISE EXCEPTION 'batch %: only a stateful batch that is being written is folded', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM tideline.state_batch WHERE pipeline = NEW.pipeline) THEN
            RAISE EXCEPTION 'batch %: the batches of a state are numbered one by one', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSIF OLD.undo <> 'kept' OR NEW.undo = 'kept' OR to_jsonb(NEW) - 'undo' <> to_jsonb(OLD) - 'undo' THEN
        RAISE EXCEPTION 'batch %: its undo is pruned or applied once, and nothing else changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER batch_is_folded_once BEFORE INSERT OR UPDATE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.check_state_batch();
CREATE TRIGGER folded_batch_is_never_deleted BEFORE DELETE ON tideline.state_batch FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- Asked at the commit: what is folded is published with it.
CREATE FUNCTION tideline.check_folded_is_published() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND state = 'writing') THEN
        RAISE EXCEPTION 'batch %: what is folded is published in the same transaction', NEW.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fold_is_published AFTER INSERT ON tideline.state_batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION tideline.check_folded_is_published();

-- Undo is pruned from the oldest batch on, and applied from the newest one back: applied in another order, a key would keep a state that never was.
CREATE FUNCTION tideline.check_undo_order() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT FROM became b JOIN tideline.state_batch k ON k.pipeline = b.pipeline AND k.undo = 'kept' AND k.seq < b.seq WHERE b.undo = 'pruned') THEN
        RAISE EXCEPTION 'undo is pruned from the oldest batch on' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (
        SELECT FROM became b JOIN tideline.state_batch k ON k.pipeline = b.pipeline AND k.undo = 'kept' AND k.seq > b.seq WHERE b.undo = 'applied') THEN
        RAISE EXCEPTION 'undo is applied from the newest batch back' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (
        SELECT FROM became b WHERE b.undo = 'applied' AND NOT EXISTS (
            SELECT FROM tideline.rewind r WHERE r.pipeline = b.pipeline AND r.at = now() AND r.decided_in = pg_current_xact_id())) THEN
        RAISE EXCEPTION 'undo is applied by a rewind' USING ERRCODE = 'restrict_violation';
    END IF;
    IF EXISTS (SELECT FROM became b JOIN tideline.state_position p USING (batch_id) WHERE b.undo = 'applied')
       OR EXISTS (
        SELECT FROM became b JOIN tideline.state_undo u USING (batch_id) LEFT JOIN tideline.state s ON s.pipeline = b.pipeline AND s.key = u.key
        WHERE b.undo = 'applied' AND (s.stream_id, s.value, s.expires_at, s.kafka_offset, s.batch_id)
              IS DISTINCT FROM (u.stream_id, u.value, u.expires_at, u.kafka_offset, u.of_batch)) THEN
        RAISE EXCEPTION 'undo is applied to every key and every position of its batch' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER undo_keeps_its_order AFTER UPDATE ON tideline.state_batch
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo_order();

-- Positions ------------------------------------------------------------------------------------------------------------------------------------------

-- A position moves over exactly the range that its batch loads. Only holes may lie before the range, and none that a rewind has left: those are loaded
-- again first. It goes back to where it was before its batch, in a rewind.
CREATE FUNCTION tideline.check_position() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    since bigint;
    piece int8range;
BEGIN
    IF TG_OP = 'UPDATE' AND (NEW.stream_id, NEW.pipeline, NEW.version) IS DISTINCT FROM (OLD.stream_id, OLD.pipeline, OLD.version + 1) THEN
        RAISE EXCEPTION 'state of stream %: every change of its position has a version of its own', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.next_offset < OLD.next_offset THEN
        IF OLD.batch_id IS DISTINCT FROM tideline.undoing(OLD.pipeline) OR NOT EXISTS (
            SELECT FROM tideline.state_position_undo u
            WHERE u.batch_id = OLD.batch_id AND u.stream_id = OLD.stream_id
              AND (u.next_offset, u.max_time, u.of_batch) IS NOT DISTINCT FROM (NEW.next_offset, NEW.max_time, NEW.batch_id)) THEN
            RAISE EXCEPTION 'state of stream %: only a rewind goes back, and from batch to batch', OLD.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    SELECT offsets INTO piece FROM tideline.batch_range WHERE batch_id = tideline.folding(NEW.pipeline) AND stream_id = NEW.stream_id;
    IF piece IS NULL OR NEW.batch_id <> tideline.folding(NEW.pipeline) OR NEW.next_offset <> upper(piece) OR TG_OP = 'INSERT' AND NEW.version <> 1 THEN
        RAISE EXCEPTION 'state of stream %: its position moves only to the end of a range that is being published', NEW.stream_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        since := OLD.next_offset;
        IF OLD.max_time > NEW.max_time OR OLD.max_time IS NOT NULL AND NEW.max_time IS NULL THEN
            RAISE EXCEPTION 'state of stream %: its largest event time never goes back', NEW.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSE
        SELECT start_offset INTO since FROM tideline.stream WHERE stream_id = NEW.stream_id;
    END IF;
    IF since > lower(piece) OR since < lower(piece) AND NOT coalesce(int8range(since, lower(piece)) <@ (
        SELECT range_agg(c.offsets::int8range) FROM tideline.covering(NEW.stream_id, int8range(since, lower(piece))) c
        WHERE c.batch_id IS NULL AND c.hole <> 'rewound'), false) THEN
        RAISE EXCEPTION 'state of stream %: it is folded up to %, the range begins at %', NEW.stream_id, since, lower(piece)
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION tideline.keep_position() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.state_position_undo (batch_id, stream_id, next_offset)
        SELECT NEW.batch_id, NEW.stream_id, start_offset FROM tideline.stream WHERE stream_id = NEW.stream_id;
    ELSIF NEW.next_offset > OLD.next_offset THEN
        INSERT INTO tideline.state_position_undo (batch_id, stream_id, next_offset, max_time, of_batch)
        VALUES (NEW.batch_id, NEW.stream_id, OLD.next_offset, OLD.max_time, OLD.batch_id);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER position_moves_with_its_batch BEFORE INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.check_position();
CREATE TRIGGER position_keeps_its_undo AFTER INSERT OR UPDATE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.keep_position();
CREATE TRIGGER position_is_never_deleted BEFORE DELETE ON tideline.state_position FOR EACH ROW EXECUTE FUNCTION tideline.refuse();

-- States ---------------------------------------------------------------------------------------------------------------------------------------------

-- States change only in the transaction that publishes the batch that changes them, and the database itself keeps how they were before. In a rewind
-- they become what the undo of the newest batch says. One pipeline for each statement, so that nothing is asked row by row.
CREATE FUNCTION tideline.keep_state() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    first_name text;
    last_name text;
    folded bigint;
    undone bigint;
BEGIN
    IF TG_OP = 'DELETE' THEN
        SELECT min(pipeline), max(pipeline) INTO first_name, last_name FROM was;
    ELSE
        SELECT min(pipeline), max(pipeline) INTO first_name, last_name FROM became;
    END IF;
    IF first_name IS NULL THEN
        RETURN NULL;
    END IF;
    folded := tideline.folding(first_name);
    undone := tideline.undoing(first_name);
    IF first_name <> last_name OR num_nulls(folded, undone) <> 1 THEN
        RAISE EXCEPTION '% of tideline.state is refused: a state changes with the batch that is published', TG_OP USING ERRCODE = 'restrict_violation';
    END IF;
    IF undone IS NOT NULL AND TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT FROM was LEFT JOIN tideline.state_undo u ON u.batch_id = undone AND u.key = was.key WHERE u.existed IS DISTINCT FROM false) THEN
            RAISE EXCEPTION 'DELETE of tideline.state is refused: a rewind goes back from batch to batch' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    ELSIF undone IS NOT NULL THEN
        IF EXISTS (
            SELECT FROM became b LEFT JOIN tideline.state_undo u ON u.batch_id = undone AND u.key = b.key
            WHERE (b.stream_id, b.value, b.expires_at, b.kafka_offset, b.batch_id)
                  IS DISTINCT FROM (u.stream_id, u.value, u.expires_at, u.kafka_offset, u.of_batch)) THEN
            RAISE EXCEPTION '% of tideline.state is refused: a rewind goes back from batch to batch', TG_OP USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NULL;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        IF EXISTS (SELECT FROM became WHERE batch_id <> folded) OR EXISTS (
            SELECT stream_id FROM became EXCEPT SELECT stream_id FROM tideline.stream WHERE pipeline = first_name) THEN
            RAISE EXCEPTION '% of tideline.state is refused: a state names its batch, and a stream of its pipeline', TG_OP
                USING ERRCODE = 'restrict_violation';
        END IF;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tideline.state_undo (batch_id, key, existed) SELECT folded, key, false FROM became ON CONFLICT DO NOTHING;
    ELSE
        INSERT INTO tideline.state_undo (batch_id, key, existed, stream_id, value, expires_at, kafka_offset, of_batch)
        SELECT folded, key, true, stream_id, value, expires_at, kafka_offset, batch_id FROM was ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER state_comes_with_its_undo AFTER INSERT ON tideline.state
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_changes_with_its_undo AFTER UPDATE ON tideline.state
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_goes_with_its_undo AFTER DELETE ON tideline.state
    REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION tideline.keep_state();
CREATE TRIGGER state_keeps_its_key BEFORE UPDATE OF pipeline, key ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER state_is_never_truncated BEFORE TRUNCATE ON tideline.state FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- Undo is written by the triggers of what it undoes, and by no client. It goes when it is pruned or applied.
CREATE FUNCTION tideline.check_undo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' AND pg_trigger_depth() > 1 THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION '% of tideline.% is refused: undo is written with what it undoes', TG_OP, TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
CREATE FUNCTION tideline.check_gone_undo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM (SELECT DISTINCT batch_id FROM gone) AS g JOIN tideline.state_batch USING (batch_id) WHERE undo = 'kept') THEN
        RAISE EXCEPTION 'DELETE of tideline.% is refused: its batch may still be rewound', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER undo_is_written_with_its_state BEFORE INSERT OR UPDATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();
CREATE TRIGGER undo_is_written_with_its_position BEFORE INSERT OR UPDATE ON tideline.state_position_undo
    FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_undo();
CREATE TRIGGER undo_stays_while_it_is_kept AFTER DELETE ON tideline.state_undo
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();
CREATE TRIGGER undo_of_positions_stays_while_it_is_kept AFTER DELETE ON tideline.state_position_undo
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION tideline.check_gone_undo();
CREATE TRIGGER undo_is_never_truncated BEFORE TRUNCATE ON tideline.state_undo FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER undo_of_positions_is_never_truncated BEFORE TRUNCATE ON tideline.state_position_undo
    FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();

-- What a rewind does to the rest of the ledger -------------------------------------------------------------------------------------------------------

-- What is folded is loaded: its coverage goes only when its batch is rewound.
CREATE FUNCTION tideline.check_rewound_coverage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tideline.state_batch WHERE batch_id = OLD.batch_id AND undo <> 'applied') THEN
        RAISE EXCEPTION 'offsets % of stream % are folded into the state by batch %', OLD.offsets, OLD.stream_id, OLD.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER folded_offsets_stay_loaded AFTER UPDATE OR DELETE ON tideline.coverage
    FOR EACH ROW WHEN (OLD.batch_id IS NOT NULL) EXECUTE FUNCTION tideline.check_rewound_coverage();

-- A hole that a rewind leaves is history of the rewind.
DROP TRIGGER hole_writes_its_history ON tideline.coverage;
CREATE TRIGGER hole_writes_its_history AFTER INSERT ON tideline.coverage FOR EACH ROW
    WHEN (NEW.hole::text IN ('skipped', 'lost') AND NEW.decided_in = pg_current_xact_id()) EXECUTE FUNCTION tideline.record_hole();

CREATE FUNCTION tideline.check_rewound_hole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.decided_in = pg_current_xact_id() AND NOT EXISTS (
        SELECT FROM tideline.stream s JOIN tideline.rewind r USING (pipeline)
        WHERE s.stream_id = NEW.stream_id AND r.at = now() AND r.decided_in = pg_current_xact_id()) THEN
        RAISE EXCEPTION 'offsets % of stream % are not rewound', NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER only_a_rewind_leaves_its_holes BEFORE INSERT OR UPDATE ON tideline.coverage
    FOR EACH ROW WHEN (NEW.hole::text = 'rewound') EXECUTE FUNCTION tideline.check_rewound_hole();

-- Rejects, as in 0012; those of a batch that is rewound go with it.
CREATE OR REPLACE FUNCTION tideline.check_gone_rejects() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        WITH writing AS MATERIALIZED (SELECT batch_id, kind FROM tideline.batch WHERE state = 'writing')
        SELECT FROM gone AS g
        WHERE NOT EXISTS (
            SELECT FROM writing JOIN tideline.redrive r USING (batch_id)
            WHERE kind = 'redrive' AND r.stream_id = g.stream_id AND r.kafka_offset = g.kafka_offset)
          AND NOT EXISTS (
            SELECT FROM writing JOIN tideline.batch_range r USING (batch_id)
            WHERE kind = 'replay' AND r.stream_id = g.stream_id AND r.offsets @> g.kafka_offset)
          AND NOT EXISTS (SELECT FROM tideline.state_batch b WHERE b.batch_id = g.batch_id AND undo = 'applied')) THEN
        RAISE EXCEPTION 'DELETE of tideline.reject is refused: a reject goes with the re-drive or the replay that loads its record'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;

-- A range, as in 0013; one that was rewound gives its offsets back.
CREATE OR REPLACE FUNCTION tideline.check_range() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    owner tideline.batch;
    head bigint;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF TG_OP = 'INSERT' THEN
        SELECT next_offset INTO head FROM tideline.stream WHERE stream_id = NEW.stream_id AND pipeline = owner.pipeline;
        IF owner.state <> 'planned' OR NEW.n_read IS NOT NULL OR NEW.reserves <> (owner.kind IN ('live', 'backfill')) OR head IS NULL THEN
            RAISE EXCEPTION 'batch %: a range belongs to a planned batch of its stream''s pipeline', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'live' AND (lower(NEW.offsets) < head OR EXISTS (SELECT FROM tideline.covering(NEW.stream_id, NEW.offsets))) THEN
            RAISE EXCEPTION 'batch %: live offsets % of stream % are accounted for', NEW.batch_id, NEW.offsets, NEW.stream_id
                USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'backfill' AND EXISTS (SELECT FROM tideline.covering(NEW.stream_id, NEW.offsets) c WHERE c.batch_id IS NOT NULL) THEN
            RAISE EXCEPTION 'batch %: offsets % of stream % are loaded', NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
        END IF;
        IF owner.kind = 'replay' AND NOT coalesce(NEW.offsets::int8range <@ (
            SELECT range_agg(c.offsets::int8range) FROM tideline.covering(NEW.stream_id, NEW.offsets) c WHERE c.batch_id IS NOT NULL), false) THEN
            RAISE EXCEPTION 'batch %: not all offsets % of stream % are loaded', NEW.batch_id, NEW.offsets, NEW.stream_id
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.alone <> OLD.alone AND to_jsonb(NEW) - 'alone' = to_jsonb(OLD) - 'alone' THEN
        RETURN NEW;
    END IF;
    IF (NEW.batch_id, NEW.stream_id, NEW.offsets, NEW.gaps_allowed, NEW.planned_log_start, NEW.planned_end) IS DISTINCT FROM
       (OLD.batch_id, OLD.stream_id, OLD.offsets, OLD.gaps_allowed, OLD.planned_log_start, OLD.planned_end)
       OR (NEW.reserves <> OLD.reserves AND NOT (owner.state = 'abandoned' OR owner.stateful AND owner.state = 'superseded')) THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.reserves = OLD.reserves AND owner.state <> 'writing' AND NOT (
        owner.state IN ('published', 'advanced', 'superseded') AND NEW.n_rejected < OLD.n_rejected
        AND NEW.n_written >= OLD.n_written AND NEW.n_filtered >= OLD.n_filtered
        AND (NEW.n_read, NEW.n_gap, NEW.first_read, NEW.last_read, NEW.published_log_start, NEW.published_end, NEW.n_bytes) IS NOT DISTINCT FROM
            (OLD.n_read, OLD.n_gap, OLD.first_read, OLD.last_read, OLD.published_log_start, OLD.published_end, OLD.n_bytes)) THEN
        RAISE EXCEPTION 'batch % is %: its counts never change', OLD.batch_id, owner.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
