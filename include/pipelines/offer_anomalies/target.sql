CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.offer_anomalies (
    offer_id bigint NOT NULL,
    begins_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL CHECK (begins_at <= ends_at),
    flag text NOT NULL CHECK (flag IN ('too few', 'too many')),
    score double precision NOT NULL CHECK (score >= 0),
    expected double precision NOT NULL CHECK (expected >= 0),
    seen bigint NOT NULL CHECK (seen >= 0),
    impressions bigint NOT NULL CHECK (impressions >= 0),
    model_version bigint NOT NULL,
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
