"""A processor of sessions, events for it, and what a plain loop over them gives."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from tideline.domain.columns import parse_type
from tideline.processors import Processor, State
from tideline.state.folding import KeyedRecord
from tideline.state.in_memory import States
from tideline.state.keys import key_text
from tideline.state.rules import Rules

EPOCH = datetime(2026, 11, 1, tzinfo=UTC)
GAP = timedelta(minutes=30)
STREAMS = {1: "clicks/0", 2: "clicks/1"}
COLUMNS = {"first": "timestamp", "clicks": "bigint", "revenue": "decimal(18,6)"}


class Sessions(Processor):
    """Closes a session half an hour after its last click. A click of 13 is refused after the state was changed."""

    rows = {"user_id": "string", "first": "timestamp", "clicks": "bigint", "revenue": "decimal(18,6)"}  # noqa: RUF012 - as authors write it

    def on_record(self, key: Any, record: dict[str, Any], state: State) -> list[Mapping[str, Any]] | None:
        """Count a click."""
        value = state.value or {"first": record["at"], "clicks": 0, "revenue": 0}
        value["clicks"] += 1
        value["revenue"] += record["price"] or 0
        state.value, state.expires_at = value, record["at"] + GAP
        if record["price"] == 13:
            raise ValueError("13 is unlucky")
        return None

    def on_expiry(self, key: Any, state: State) -> list[Mapping[str, Any]] | None:
        """Return the session."""
        assert state.value is not None
        return [{"user_id": key, **state.value}]


def rules(processor: Processor | None = None, **changes: Any) -> Rules:
    """Return how clicks are folded."""
    folds = processor or Sessions()
    given: dict[str, Any] = {
        "processor": folds,
        "key": {"user_id": parse_type("string")},
        "event_time": "at",
        "lateness": timedelta(0),
        "rejects_late": True,
        "ahead": timedelta(hours=1),
        "columns": {name: parse_type(kind) for name, kind in COLUMNS.items()},
        "former": {},
        "max_bytes": 65_536,
        "rows": {name: parse_type(kind) for name, kind in folds.rows.items()},
    }
    return Rules(**(given | changes))


def states(processor: Processor | None = None, **changes: Any) -> States:
    """Return states in memory, none yet."""
    return States(rules=rules(processor, **changes), streams=STREAMS)


def click(
    user: str, minute: float | None, offset: int, *, price: Any = None, stream_id: int = 1, **more: Any
) -> KeyedRecord:
    """Return a click, so many minutes after `EPOCH`."""
    at = None if minute is None else EPOCH + timedelta(minutes=minute)
    kafka = {"topic": "clicks", "partition": stream_id - 1, "offset": offset, "timestamp": at, "headers": None}
    values = {"user_id": user, "at": at, "price": price, **more, "kafka": kafka}
    return KeyedRecord(key_text([user]), stream_id, offset, values)


def fold_in_cuts(
    folded: States, records: Sequence[KeyedRecord], cuts: Iterable[int], chunk_records: int | None = None
) -> list[dict[str, Any]]:
    """Fold records as batches that begin at `cuts`. Return the rows, in the order of streams and offsets."""
    bounds = [0, *sorted({*cuts} - {0}), len(records)]
    rows = [row for start, end in pairwise(bounds) for row in folded.fold(records[start:end], chunk_records).rows]
    return [
        {"stream": row.stream_id, "offset": row.offset, **row.values} for row in sorted(rows, key=lambda row: row[:2])
    ]


def reduced(
    records: Iterable[KeyedRecord], until: Mapping[int, datetime]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the closed sessions and the open ones, by a loop that knows no states, timers and batches.

    Args:
        records: In the order of their streams, each stream in the order of event time.
        until: The last event time of each stream, which closes sessions.
    """
    closed: list[dict[str, Any]] = []
    open_ones: dict[str, dict[str, Any]] = {}
    for record in records:
        values = record.values
        found = open_ones.get(record.key)
        if found and values["at"] >= found["last"] + GAP:
            closed.append(open_ones.pop(record.key))
            found = None
        if found is None:
            found = open_ones[record.key] = {
                "user_id": values["user_id"], "first": values["at"], "clicks": 0, "revenue": 0, "stream": record.stream_id,
            }  # fmt: skip
        found["clicks"] += 1
        found["revenue"] += values["price"] or 0
        found |= {"last": values["at"], "offset": record.offset}
    for key, found in list(open_ones.items()):
        if found["last"] + GAP <= until[found["stream"]]:
            closed.append(open_ones.pop(key))
    for found in closed:
        del found["last"]
    return sorted(closed, key=lambda row: (row["stream"], row["offset"])), open_ones
