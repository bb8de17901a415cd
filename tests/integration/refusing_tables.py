"""Tables that refuse rows, and the records of which they refuse some."""

import json

import psycopg2

import records

COORDINATES = "kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL"
KEY = "kafka_topic_id, kafka_partition, kafka_offset"
TABLE = f"CREATE TABLE ads.output (id bigint, name text, price numeric(12, 4), {COORDINATES}, PRIMARY KEY ({KEY}))"
ACTS = (
    "CREATE FUNCTION ads.act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
    "CREATE {trigger} ON ads.output {when} FOR EACH ROW EXECUTE FUNCTION ads.act();"
)


def acting(body, trigger="TRIGGER acts BEFORE INSERT", when=""):
    return ACTS.format(body=body, trigger=trigger, when=when)


LATER = acting(
    "IF NEW.id = 3 THEN RAISE 'three at last'; END IF; RETURN NEW;",
    "CONSTRAINT TRIGGER acts AFTER INSERT",
    "DEFERRABLE INITIALLY DEFERRED",
)


def given(id_, name):
    return json.dumps({"id": id_, "name": name, "price": 1.5})


def target(table=TABLE, *, before="", after=""):
    return f"CREATE SCHEMA IF NOT EXISTS ads; {before}; {table}; {after}"


def declare(loading, values, text, *, partitions=1, **declared):
    topic = records.create(loading.bootstrap, partitions=partitions)
    records.produce(loading.bootstrap, topic, values, partitions=partitions)
    loading.declare(topic, target=text, **declared)
    return topic


def execute(loading, text):
    connection = psycopg2.connect(loading.url)
    with connection, connection.cursor() as cursor:
        cursor.execute(text)
    connection.close()


def reasons(loading):
    """Return the reasons of the table's rejects, by offset."""
    assert {step for step, _, _ in loading.rejects().values()} <= {"store"}
    return {offset: reason for (_, offset), (_, reason, _) in loading.rejects().items()}
