CREATE SCHEMA IF NOT EXISTS ads;

CREATE TABLE ads.sessions (
    user_id text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL CHECK (last_at >= first_at),
    duration_ms bigint NOT NULL,
    impressions bigint NOT NULL,
    clicks bigint NOT NULL,
    revenue numeric(18, 6) NOT NULL CHECK (revenue >= 0),
    -- Those of the visit's event with the last offset.
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);

-- A rewind deletes the rows of its batches.
CREATE INDEX ON ads.sessions (tideline_batch);
