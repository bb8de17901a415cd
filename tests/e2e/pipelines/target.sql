CREATE SCHEMA IF NOT EXISTS e2e;
CREATE TABLE e2e.$name (
    id bigint NOT NULL,
    name text,
    price numeric(12, 4),
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
