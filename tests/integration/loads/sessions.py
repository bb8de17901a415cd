"""Clicks on a topic, a pipeline that folds them into sessions, and the same fold in memory."""

import inspect
import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from textwrap import dedent
from typing import Any

import orjson

import records
import stateful_events
from loads.loading import Loading
from stateful_events import COLUMNS, EPOCH, Sessions, rules
from tideline.processors import Processor
from tideline.state.folding import KeyedRecord
from tideline.state.in_memory import States
from tideline.state.keys import key_text

Click = tuple[int, str, float | None, Any]
"""Partition, user, minutes after `EPOCH`, and price."""
SOURCE = {"user_id": "string", "at": "timestamp", "price": "decimal(18,6)"}
STATE = {"key": "user_id", "columns": COLUMNS, "event_time": "at"}
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    user_id text NOT NULL,
    first timestamptz,
    clicks bigint CHECK (clicks < 1000),
    revenue numeric(18, 6),
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


def transform(processor: type[Processor] = Sessions, more: str = "") -> str:
    """Return the text of a transform.py with a processor of this module's kind."""
    head = "from datetime import timedelta\nfrom tideline.processors import Processor\n\nGAP = timedelta(minutes=30)\n"
    text = dedent(inspect.getsource(processor)).replace(": Any", "").replace("dict[str, Any]", "dict")
    for name in (": State", " -> list[Mapping[str, Any]] | None", ": dict"):
        text = text.replace(name, "")
    return f"{head}\n\n{text}\n\nprocessor = {processor.__name__}()\n{dedent(more)}"


def declare(
    loading: Loading, topic: str, *, text: str | None = None, state: dict[str, object] | None = None, **more: Any
) -> None:
    """Declare a pipeline of sessions."""
    loading.declare(
        topic,
        columns=SOURCE,
        transform=transform() if text is None else text,
        state={**STATE, **(state or {})},
        **{"target": TARGET, **more},
    )


def send(loading: Loading, topic: str, clicks: Iterable[Click]) -> None:
    """Send clicks to their partitions, in order."""
    by_partition: dict[int, list[str]] = {}
    for partition, user, minute, price in clicks:
        at = None if minute is None else (EPOCH + timedelta(minutes=minute)).isoformat()
        value = {"user_id": user, "at": at, "price": None if price is None else str(price)}
        by_partition.setdefault(partition, []).append(json.dumps(value))
    for partition, values in by_partition.items():
        records.produce(loading.bootstrap, topic, values, first_partition=partition)


class InMemory:
    """Folds in memory what a pipeline has loaded, batch by batch, with the ranges of the ledger."""

    def __init__(self, loading: Loading, clicks: Sequence[Click], **changes: Any) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.rejects: set[tuple[int, int]] = set()
        streams = dict(loading.rows("SELECT stream_id, partition FROM tideline.stream"))
        names = dict(loading.rows("SELECT stream_id, topic || '/' || partition FROM tideline.stream"))
        self.states = States(rules=rules(**changes), streams=names)
        logs: dict[int, list[KeyedRecord]] = {stream_id: [] for stream_id in streams}
        for stream_id, partition in streams.items():
            for _, user, minute, price in (one for one in clicks if one[0] == partition):
                at = None if minute is None else EPOCH + timedelta(minutes=minute)
                exact = None if price is None else Decimal(str(price))
                values: dict[str, Any] = {"user_id": user, "at": at, "price": exact, "kafka": {}}
                logs[stream_id].append(KeyedRecord(key_text([user]), stream_id, len(logs[stream_id]), values))
        for batch_id, ranges in loading.rows(
            "SELECT batch_id, array_agg(array[stream_id, lower(offsets), upper(offsets)]) FROM tideline.batch_range "
            "JOIN tideline.batch USING (batch_id) WHERE state IN ('published', 'advanced') GROUP BY batch_id ORDER BY batch_id"
        ):
            batch = [record for stream_id, start, end in ranges for record in logs[stream_id][start:end]]
            found = self.states.fold(batch)
            self.rows += [(*row.values.values(), streams[row.stream_id], row.offset, batch_id) for row in found.rows]
            self.rejects |= {(streams[batch[n].stream_id], batch[n].offset) for n, _ in found.rejected}

    def kept(self) -> dict[str, tuple[Any, ...]]:
        """Return the states: value, timer and last offset by key."""
        return {key: (orjson.loads(one.value), one.expires_at, one.offset) for key, one in self.states.stored.items()}


def rows(loading: Loading) -> list[tuple[Any, ...]]:
    """Return the sessions of the table, in order of partition and offset."""
    return loading.rows(
        "SELECT user_id, first, clicks, revenue, kafka_partition, kafka_offset, tideline_batch FROM ads.output ORDER BY 5, 6"
    )


def kept(loading: Loading) -> dict[str, tuple[dict[str, Any], datetime | None, int]]:
    """Return the states of the ledger: value, timer and last offset by key."""
    found = loading.rows("SELECT key, value, expires_at, kafka_offset FROM tideline.state")
    return {key: (value, expires_at, offset) for key, value, expires_at, offset in found}


def check(loading: Loading, clicks: Sequence[Click], **changes: Any) -> InMemory:
    """Compare rows, states and rejects with the fold in memory, and return it."""
    found = InMemory(loading, clicks, **changes)
    assert rows(loading) == sorted(found.rows, key=lambda row: row[4:6])
    assert kept(loading) == found.kept()
    assert set(loading.rejects()) == found.rejects
    return found


__all__ = ["Click", "InMemory", "check", "declare", "kept", "rows", "send", "stateful_events", "transform"]
