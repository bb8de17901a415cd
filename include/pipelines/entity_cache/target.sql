CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.offer_cache (
    offer_id bigint PRIMARY KEY,
    advertiser text NOT NULL,
    category text NOT NULL,
    bid_micros bigint NOT NULL CHECK (bid_micros >= 0),
    changed_at timestamptz NOT NULL,
    kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
