-- A GiST index of Postgres (seen in 15, 16 and 18) can lose entries of living rows: a scan that is started again, as the inner side of a nested loop is,
-- marks entries by their place on a page that has been split meanwhile, by this session or another one. The exclusion constraints then do not see
-- what such an entry stands for: an offset could get two owners. A scan that is not started again loses none.
--
-- So no query scans these indexes in a join. It calls a function, and each call has a scan of its own. A function with a setting is never put into the
-- query that calls it.
CREATE OR REPLACE FUNCTION tideline.covering(stream bigint, wanted int8range) RETURNS SETOF tideline.coverage
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.coverage
    WHERE int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
CREATE OR REPLACE FUNCTION tideline.replaying(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.batch_range
    WHERE NOT reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
CREATE OR REPLACE FUNCTION tideline.reserving(stream bigint, wanted int8range) RETURNS SETOF tideline.batch_range
    LANGUAGE sql STABLE ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM tideline.batch_range
    WHERE reserves AND int8range(stream_id, stream_id, '[]') && int8range(stream, stream, '[]') AND offsets::int8range && wanted
$$;
CREATE OR REPLACE FUNCTION tideline.check_alone() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    owner tideline.batch;
BEGIN
    SELECT * INTO owner FROM tideline.batch WHERE batch_id = NEW.batch_id;
    IF NEW.alone <> (owner.outside AND owner.kind IN ('replay', 'redrive') AND owner.state IN ('planned', 'writing', 'failed')) THEN
        RAISE EXCEPTION 'batch %: a range of an open replay or re-drive of an outside sink is alone, and no other', NEW.batch_id
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF TG_OP = 'INSERT' AND NOT NEW.reserves AND EXISTS (
        SELECT FROM tideline.replaying(NEW.stream_id, NEW.offsets) AS r JOIN tideline.batch AS b ON b.batch_id = r.batch_id
        WHERE b.kind IN ('replay', 'redrive') AND b.state IN ('planned', 'writing', 'failed') AND b.outside <> owner.outside) THEN
        RAISE EXCEPTION 'batch %: an open replay or re-drive of offsets % of stream % was planned for another kind of sink',
            NEW.batch_id, NEW.offsets, NEW.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- What may be lost already is found again, or refused if two owners have one offset.
REINDEX TABLE tideline.coverage;
REINDEX TABLE tideline.batch_range;
