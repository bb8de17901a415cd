CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.advertisers (
    advertiser_id bigint PRIMARY KEY,
    name text NOT NULL,
    country char(2),
    budget numeric(12, 2) NOT NULL,
    active boolean NOT NULL,
    signed_on date,
    changed_at timestamptz NOT NULL,
    source_lsn bigint NOT NULL,
    kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
