"""Tables that refuse rows, and the records of which they refuse some."""

import json
from collections.abc import Iterable
from typing import Any

import records
from loading import Loading

COORDINATES = "kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL"
KEY = "kafka_topic_id, kafka_partition, kafka_offset"
TABLE = f"CREATE TABLE ads.output (id bigint, name text, price numeric(12, 4), {COORDINATES}, PRIMARY KEY ({KEY}))"
ACTS = (
    "CREATE FUNCTION ads.act() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} END $$;"
    "CREATE {trigger} ON ads.output {when} FOR EACH ROW EXECUTE FUNCTION ads.act();"
)


def acting(body: str, trigger: str = "TRIGGER acts BEFORE INSERT", when: str = "") -> str:
    return ACTS.format(body=body, trigger=trigger, when=when)


LATER = acting(
    "IF NEW.id = 3 THEN RAISE 'three at last'; END IF; RETURN NEW;",
    "CONSTRAINT TRIGGER acts AFTER INSERT",
    "DEFERRABLE INITIALLY DEFERRED",
)


def given(id_: int, name: str) -> str:
    return json.dumps({"id": id_, "name": name, "price": 1.5})


def target(table: str = TABLE, *, before: str = "", after: str = "") -> str:
    return f"CREATE SCHEMA IF NOT EXISTS ads; {before}; {table}; {after}"


def declare(
    loading: Loading, values: Iterable[bytes | str | None], text: str, *, partitions: int = 1, **declared: Any
) -> str:
    topic = records.create(loading.bootstrap, partitions=partitions)
    records.produce(loading.bootstrap, topic, values, partitions=partitions)
    loading.declare(topic, target=text, **declared)
    return topic


def reasons(loading: Loading) -> dict[int, str]:
    """Return the reasons of the table's rejects, by offset."""
    assert {step for step, _, _ in loading.rejects().values()} <= {"store"}
    return {offset: reason for (_, offset), (_, reason, _) in loading.rejects().items()}
