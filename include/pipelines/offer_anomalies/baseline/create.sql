-- The baseline: how many impressions and conversions each offer has had. A version is written in one transaction and never changes, so a row of
-- ads.offer_anomalies can be explained with the version that it names, as long as that is kept.
CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE IF NOT EXISTS ads.baseline_version (
    version bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hour timestamptz NOT NULL UNIQUE CHECK (date_trunc('hour', hour, 'UTC') = hour),
    begins_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL CHECK (begins_at < ends_at AND ends_at <= hour),
    computed_at timestamptz NOT NULL DEFAULT now(),
    computed_in xid8 NOT NULL DEFAULT pg_current_xact_id()
);
COMMENT ON COLUMN ads.baseline_version.hour IS 'the hour at which it was to be computed: one version for each';
COMMENT ON COLUMN ads.baseline_version.begins_at IS 'it counts what has happened from here on';
COMMENT ON COLUMN ads.baseline_version.ends_at IS 'to here: the hour, or earlier if impressions or conversions are loaded only so far';

CREATE TABLE IF NOT EXISTS ads.baseline (
    version bigint NOT NULL REFERENCES ads.baseline_version ON DELETE CASCADE,
    offer_id bigint NOT NULL,
    impressions bigint NOT NULL CHECK (impressions >= 0),
    conversions bigint NOT NULL CHECK (conversions >= 0),
    PRIMARY KEY (version, offer_id)
);

CREATE OR REPLACE VIEW ads.baseline_current AS
SELECT version, offer_id, impressions, conversions
FROM ads.baseline
WHERE version = (SELECT version FROM ads.baseline_version ORDER BY hour DESC LIMIT 1);

CREATE OR REPLACE FUNCTION ads.keep_baseline() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' AND EXISTS (
        SELECT FROM ads.baseline_version v WHERE v.version = NEW.version AND v.computed_in = pg_current_xact_id()) THEN
        RETURN NEW;
    ELSIF TG_OP = 'DELETE' AND NOT EXISTS (SELECT FROM ads.baseline_version v WHERE v.version = OLD.version) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'a version of the baseline never changes after it was computed' USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER rows_stay_as_computed BEFORE INSERT OR UPDATE OR DELETE ON ads.baseline
    FOR EACH ROW EXECUTE FUNCTION ads.keep_baseline();
CREATE OR REPLACE TRIGGER rows_are_never_truncated BEFORE TRUNCATE ON ads.baseline
    FOR EACH STATEMENT EXECUTE FUNCTION ads.keep_baseline();
CREATE OR REPLACE TRIGGER a_version_stays_as_computed BEFORE UPDATE ON ads.baseline_version
    FOR EACH ROW EXECUTE FUNCTION ads.keep_baseline();
