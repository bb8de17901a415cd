CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.impressions (
    impression_id uuid NOT NULL,
    offer_id bigint NOT NULL,
    advertiser text,
    category text,
    user_id text,
    placement text,
    country text CHECK (length(country) = 2),
    device text,
    price numeric(18, 6) NOT NULL CHECK (price >= 0),
    shown_at timestamptz NOT NULL,
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
