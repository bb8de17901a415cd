-- Dead letters: the rejects of a published batch are sent to a topic once, if its pipeline declares one.

-- Which batches owe letters. Written by the publishing transaction itself, so that no batch with rejects is missing here, whichever code has
-- published it. A re-drive owes none: the rejects that it leaves still belong to the batches that had rejected them.
CREATE TABLE tideline.letters (
    batch_id bigint PRIMARY KEY REFERENCES tideline.batch,
    pipeline text NOT NULL REFERENCES tideline.pipeline,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at timestamptz
);
COMMENT ON TABLE tideline.letters IS 'published batches with rejects, and whether these are in the topic of rejects';
COMMENT ON COLUMN tideline.letters.sent_at IS 'when the transaction with its rejects was found to be committed';
CREATE INDEX letters_owed ON tideline.letters (pipeline, batch_id) WHERE sent_at IS NULL;

CREATE FUNCTION tideline.owe_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tideline.letters (batch_id, pipeline)
    SELECT NEW.batch_id, NEW.pipeline WHERE EXISTS (SELECT FROM tideline.reject WHERE batch_id = NEW.batch_id);
    RETURN NULL;
END $$;
-- The rejects are there by then: a batch that is published gets no more.
CREATE TRIGGER publication_owes_letters AFTER UPDATE ON tideline.batch
    FOR EACH ROW WHEN (NEW.state = 'published' AND OLD.state <> 'published') EXECUTE FUNCTION tideline.owe_letters();

CREATE FUNCTION tideline.check_letters() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.sent_at IS NOT NULL OR NOT EXISTS (
            SELECT FROM tideline.batch WHERE batch_id = NEW.batch_id AND pipeline = NEW.pipeline AND state IN ('published', 'advanced', 'superseded')) THEN
            RAISE EXCEPTION 'batch %: only a batch that is published owes letters', NEW.batch_id USING ERRCODE = 'restrict_violation';
        END IF;
    ELSIF OLD.sent_at IS NOT NULL OR NEW.sent_at IS NULL
       OR (NEW.batch_id, NEW.pipeline, NEW.published_at) IS DISTINCT FROM (OLD.batch_id, OLD.pipeline, OLD.published_at) THEN
        RAISE EXCEPTION 'letters of batch %: they are sent once, and nothing else changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER letters_are_sent_once BEFORE INSERT OR UPDATE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.check_letters();
CREATE TRIGGER letters_are_never_forgotten BEFORE DELETE ON tideline.letters FOR EACH ROW EXECUTE FUNCTION tideline.refuse();
CREATE TRIGGER letters_are_never_truncated BEFORE TRUNCATE ON tideline.letters FOR EACH STATEMENT EXECUTE FUNCTION tideline.refuse();
