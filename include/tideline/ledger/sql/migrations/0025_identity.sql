-- A ledger that was restored to an earlier moment gives the numbers of batches and the fences of that moment again. What names of them are built of
-- would meet the files, receipts and tables of the batches that had them before. So each batch gets a random identity when it is planned, and every
-- name outside of the ledger is built of it and of the random number of the attempt.

-- What another session intends or settles at this moment is waited for, and counts below. In the order of drivers: the batch first, and at once with
-- the lock that its new column needs. One that held it and waited for what follows would otherwise be waited for by the column.
LOCK TABLE tideline.pipeline IN SHARE ROW EXCLUSIVE MODE; -- plans and decisions lock their pipeline before batches
LOCK TABLE tideline.batch IN ACCESS EXCLUSIVE MODE;
LOCK TABLE tideline.intent, tideline.letters IN SHARE ROW EXCLUSIVE MODE;

-- A batch that may be committed has its receipt under the name of its number, where it would not be looked for any more. The driver of one that is being
-- written may still commit it under that name. So may letters be in their topic, of a pipeline that has sent some: others owe them to no topic.
DO $$
DECLARE
    found text := (
        SELECT string_agg(format('%s of %s', batch_id, pipeline), ', ' ORDER BY batch_id) FROM tideline.batch
        WHERE outside AND state = 'writing' OR state IN ('planned', 'writing', 'failed') AND EXISTS (
            SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE intent.batch_id = batch.batch_id AND fence >= sealed_fence));
    owed text := (
        SELECT string_agg(format('%s of %s', n_owed, pipeline), ', ' ORDER BY pipeline)
        FROM (SELECT pipeline, count(*) - count(sent_at) AS n_owed, count(sent_at) AS n_sent FROM tideline.letters GROUP BY pipeline) AS counted
        WHERE n_owed > 0 AND n_sent > 0);
BEGIN
    IF found IS NOT NULL THEN
        RAISE EXCEPTION 'these batches are open and may be committed outside of the ledger: %. Finish or abandon them with the release before', found
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF owed IS NOT NULL THEN
        RAISE EXCEPTION 'the rejects of published batches may be in their topic, and are not recorded as sent: batches %. Wait for the tasks of the '
            'release before, and let its upkeep send what it owes', owed USING ERRCODE = 'restrict_violation';
    END IF;
END $$;

-- Nothing finds staging tables by their former names any more. No attempt needs one: what is claimed anew is staged anew, and what may be committed
-- outside was refused above.
DO $$
DECLARE
    former text;
BEGIN
    FOR former IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'tideline_staging' AND tablename ~ '^batch_[0-9]+_attempt_[0-9]+(_deleted|_state)?$' LOOP
        EXECUTE format('DROP TABLE tideline_staging.%I', former);
    END LOOP;
END $$;

ALTER TABLE tideline.batch ADD COLUMN identity uuid NOT NULL DEFAULT gen_random_uuid(), ADD CONSTRAINT batch_identity_key UNIQUE (identity);
COMMENT ON COLUMN tideline.batch.identity IS 'drawn at random when the batch is planned; every name of the batch outside of the ledger is built of it';

-- As in 0013, and the identity never changes.
CREATE OR REPLACE FUNCTION tideline.check_batch() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.batch_id, NEW.pipeline, NEW.kind, NEW.dag_id, NEW.run_id, NEW.seq, NEW.planned_at) IS DISTINCT FROM
       (OLD.batch_id, OLD.pipeline, OLD.kind, OLD.dag_id, OLD.run_id, OLD.seq, OLD.planned_at)
       OR (NEW.supersedes, NEW.reason, NEW.outside, NEW.identity) IS DISTINCT FROM (OLD.supersedes, OLD.reason, OLD.outside, OLD.identity) THEN
        RAISE EXCEPTION 'batch %: what was planned never changes', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.sealed_fence < OLD.sealed_fence THEN
        RAISE EXCEPTION 'batch %: a seal only rises', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.written_by IS DISTINCT FROM OLD.written_by AND (OLD.written_by IS NOT NULL OR OLD.state <> 'writing' OR NEW.state <> 'writing'
        OR EXISTS (SELECT FROM tideline.attempt WHERE attempt_id = NEW.written_by AND fence < NEW.sealed_fence)) THEN
        RAISE EXCEPTION 'batch %: only what no seal has ruled out is settled, once', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = OLD.state AND NEW.state IN ('writing', 'failed') AND (NEW.fence, NEW.attempt) = (OLD.fence, OLD.attempt)
       AND (NEW.sealed_fence > OLD.sealed_fence OR NEW.written_by IS DISTINCT FROM OLD.written_by) THEN
        RETURN NEW;
    END IF;
    IF NEW.sealed_fence > OLD.sealed_fence THEN
        RAISE EXCEPTION 'batch %: only an open batch that was claimed is sealed', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NOT (OLD.state || '>' || NEW.state) = ANY (ARRAY[
        'planned>writing', 'writing>writing', 'failed>writing', 'writing>failed', 'writing>published', 'published>advanced',
        'planned>abandoned', 'failed>abandoned', 'published>superseded', 'advanced>superseded']) THEN
        RAISE EXCEPTION 'batch %: no way from % to %', OLD.batch_id, OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'writing' AND (NEW.fence <> OLD.fence + 1 OR NEW.attempt IS NOT DISTINCT FROM OLD.attempt) THEN
        RAISE EXCEPTION 'batch %: a claim raises the fence by one and names a new attempt', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> 'writing' AND (NEW.fence, NEW.attempt) IS DISTINCT FROM (OLD.fence, OLD.attempt) THEN
        RAISE EXCEPTION 'batch %: only a claim changes the attempt', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'published' AND EXISTS (SELECT FROM tideline.batch_range WHERE batch_id = NEW.batch_id AND n_read IS NULL) THEN
        RAISE EXCEPTION 'batch %: a batch without counts cannot be published', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = 'abandoned' AND EXISTS (
        SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE intent.batch_id = NEW.batch_id AND fence >= NEW.sealed_fence) THEN
        RAISE EXCEPTION 'batch %: it may be committed outside, and is not sealed', OLD.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = 'advanced' AND NEW.kind = 'live' AND EXISTS (
        SELECT FROM tideline.batch_range JOIN tideline.stream USING (stream_id)
        WHERE batch_id = NEW.batch_id AND next_offset < upper(offsets) AND stream.state <> 'retired') THEN
        RAISE EXCEPTION 'batch %: not every head has passed it', OLD.batch_id USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;

-- Staging tables are called by the number of their attempt. One that no attempt of this ledger has created is of before a restore.
CREATE OR REPLACE FUNCTION tideline.drop_staging(name text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number uuid := (regexp_match(name, '^attempt_([0-9a-f]{32})(?:_deleted|_state)?$'))[1]::uuid;
    owner tideline.batch;
BEGIN
    IF number IS NULL THEN
        RAISE EXCEPTION '% is no name of a staging table', name USING ERRCODE = 'invalid_name';
    END IF;
    SELECT batch.* INTO owner FROM tideline.attempt JOIN tideline.batch USING (batch_id) WHERE attempt.attempt = number;
    IF owner.state = 'writing' AND owner.attempt = number THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: its attempt holds batch %', name, owner.batch_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF owner.state IN ('planned', 'writing', 'failed') AND EXISTS (
        SELECT FROM tideline.intent JOIN tideline.attempt USING (attempt_id) WHERE attempt.attempt = number) THEN
        RAISE EXCEPTION 'tideline_staging.% is not dropped: batch % may be committed outside, and is not settled', name, owner.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS tideline_staging.%I', name);
END $$;
