-- A re-drive settles the rejects that it has read, each by its identity, and no other. How many were read and how many are left may agree while one was
-- left out by the reader and another one was taken away by a replay: the one that nobody had read would be deleted as settled.

-- The attempt that has rejected a record last. An attempt publishes once at most, so stream, offset and attempt name one reject for ever: what a later
-- replay or re-drive rejects of the same record is another reject.
ALTER TABLE tideline.reject ADD COLUMN attempt_id bigint REFERENCES tideline.attempt;
UPDATE tideline.reject SET attempt_id = attempt.attempt_id
FROM tideline.batch JOIN tideline.attempt USING (attempt) WHERE batch.batch_id = reject.batch_id;
ALTER TABLE tideline.reject ALTER COLUMN attempt_id SET NOT NULL;
COMMENT ON COLUMN tideline.reject.attempt_id IS 'the attempt that has rejected the record last: the version of the reject';

-- Which rejects an attempt has read, slice by slice: a Spark task reads one slice, and puts down what it has found before it gives anything on. Keyed by
-- the slice and not by the task: a task that runs twice leaves it once, or fails where it finds other rejects than the first time. Nobody could tell
-- then from which of the two the rows come that are staged.
CREATE TABLE tideline.staged_redrive (
    attempt_id bigint NOT NULL REFERENCES tideline.attempt ON DELETE CASCADE,
    stream_id bigint NOT NULL REFERENCES tideline.stream,
    start_offset bigint NOT NULL,
    offsets bigint[] NOT NULL,
    rejected_by bigint[] NOT NULL,
    PRIMARY KEY (attempt_id, stream_id, start_offset),
    CONSTRAINT offsets_and_attempts_pair CHECK (cardinality(offsets) = cardinality(rejected_by))
);
COMMENT ON COLUMN tideline.staged_redrive.rejected_by IS 'attempt_id of the reject at each of the offsets';

CREATE FUNCTION tideline.check_slice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'attempt %: rejects of stream % from % on were read twice, and were others the second time',
            OLD.attempt_id, OLD.stream_id, OLD.start_offset USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slice_is_read_once BEFORE UPDATE ON tideline.staged_redrive FOR EACH ROW EXECUTE FUNCTION tideline.check_slice();
