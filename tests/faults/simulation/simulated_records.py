"""What the simulated executors make of a record: its rows, or a reject as the ledger stores it."""

import json
from base64 import b64decode, b64encode
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from faults.checker.facts import Record
from faults.visit_rules import REFUSED


class Outcome(NamedTuple):
    """The outcome of a value: its rows, or the step that rejected it and the reason."""

    rows: tuple[tuple[Any, ...], ...] = ()
    step: str | None = None
    reason: str = ""


def as_reject(stream_id: int, one: Record, outcome: Outcome) -> tuple[Any, ...]:
    """Return the row of a reject, as a task stages it."""
    place = (stream_id, one.offset, outcome.step, outcome.reason)
    return (*place, one.timestamp_ms, one.key, one.value, headers_as_kept(one.headers))


@cache
def outcome_of(value: bytes, *, refuses: bool, mine: bool) -> Outcome:
    """Decode and transform a value as the job does. `mine`: the pipeline loads it."""
    try:
        found = json.loads(value)
    except ValueError:
        return Outcome(step="decode", reason="not JSON")
    if not mine:
        return Outcome()
    if refuses and found["name"] == REFUSED:
        return Outcome(step="transform", reason=f"{REFUSED} is no name")
    price = Decimal(str(found["price"]))
    rows = tuple((found["id"], item, found["name"], price) for item in range(found["copies"]))
    return Outcome(step="store", reason="violates check constraint") if rows and price >= 1000 else Outcome(rows)


@cache
def headers_as_kept(headers: tuple[tuple[str, bytes | None], ...] | None) -> bytes | None:
    """Return headers as the ledger stores them."""
    if headers is None:
        return None
    pairs = [
        {"key": key} if value is None else {"key": key, "value": b64encode(value).decode()} for key, value in headers
    ]
    return json.dumps(pairs).encode()


@cache
def headers_of(kept: bytes | None) -> tuple[tuple[str, bytes | None], ...] | None:
    """Return the headers that were stored."""
    return (
        None
        if kept is None
        else tuple((pair["key"], pair.get("value") and b64decode(pair["value"])) for pair in json.loads(kept))
    )
