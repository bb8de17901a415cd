CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.conversions (
    offer_id bigint NOT NULL,
    user_id text,
    revenue numeric(18, 6) CHECK (revenue >= 0),
    converted_at timestamptz NOT NULL,
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
