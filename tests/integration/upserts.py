"""A pipeline that keeps the newest record of each key, and what a plain reduce of the same records gives."""

import json
from collections.abc import Iterable, Sequence

import records
from loading import Loading

TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint PRIMARY KEY,
    name text,
    price numeric(12, 4) CHECK (price < 1000),
    kafka_topic_id uuid NOT NULL,
    kafka_partition integer NOT NULL,
    kafka_offset bigint NOT NULL,
    tideline_batch bigint NOT NULL
);
"""
KEY = {"format": "json", "columns": {"id": "bigint"}}
COLUMNS = {"name": "string", "price": "decimal(12,4)"}
Event = tuple[int, str | None]
"""A key and the name that its record gives it; None is a tombstone."""


def declare(loading: Loading, topic: str, *, order: Sequence[str] = (), target: str = TARGET, **rest: object) -> None:
    """Declare an upsert pipeline. Tombstones delete, unless `rest` says otherwise or there is an order."""
    given = {"key": KEY, "tombstones": "keep" if order else "delete", "columns": COLUMNS, **rest}
    sink = {"mode": "upsert", "key": ["id"], **({"order": [*order]} if order else {})}
    loading.declare(topic, target=target, sink=sink, **given)  # type: ignore[arg-type]


def send(loading: Loading, topic: str, events: Iterable[Event], **rest: object) -> None:
    """Send events in order."""
    given = list(events)
    records.produce(
        loading.bootstrap,
        topic,
        [None if name is None else json.dumps({"name": name, "price": 1}) for _, name in given],
        keys=[json.dumps({"id": key}).encode() for key, _ in given],
        **rest,  # type: ignore[arg-type]
    )


def reduced(events: Iterable[Event]) -> dict[int, str]:
    """Return the newest name of each key that is not deleted."""
    newest = dict(events)
    return {key: name for key, name in newest.items() if name is not None}


def table(loading: Loading) -> dict[int, str]:
    """Return the name of each key in the table."""
    return dict(loading.rows("SELECT id, name FROM ads.output ORDER BY id"))


def marks(loading: Loading) -> dict[int, int]:
    """Return the offset of the newest tombstone of each key."""
    return dict(loading.rows("SELECT id, kafka_offset FROM ads.output__deleted ORDER BY id"))


def whole(loading: Loading) -> list[tuple[object, ...]]:
    """Return the table with all coordinates, without the batch, which a replay changes."""
    return loading.rows("SELECT id, name, price, kafka_partition, kafka_offset FROM ads.output ORDER BY id")
