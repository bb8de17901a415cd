"""Folds impressions and clicks into visits: one row for each, when it has ended.

A visit ends with a pause of half an hour, or after twelve hours. What becomes of an event:

- out of order, but its visit is open: the row of the visit is the same;
- more than `lateness_minutes` behind the newest event of its partition when its batch begins: a reject;
- more than a pause before the visit that is open, so that it belongs to one that has ended: a reject.

The order of offsets decides when a visit has ended: an event that comes after the next visit has begun joins that one, or is a reject.
"""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tideline.processors import Processor, State

PAUSE = timedelta(minutes=30)
LONGEST = timedelta(hours=12)
"""Without it, a robot that never pauses would have a visit without an end."""
COUNTED = {"impression": "impressions", "click": "clicks"}


class Sessions(Processor):
    """Keeps the open visit of each user."""

    rows = {
        "user_id": "string",
        "first_at": "timestamp",
        "last_at": "timestamp",
        "duration_ms": "bigint",
        "impressions": "bigint",
        "clicks": "bigint",
        "revenue": "decimal(18,6)",
    }

    def on_record(self, key: str, record: dict[str, Any], state: State) -> None:
        """Add an event to the open visit, or begin one. What the table would refuse is a reject here: later, the batch would fail."""
        at, revenue = record["happened_at"], record["revenue"] or Decimal(0)
        if record["kind"] not in COUNTED:
            raise ValueError(f"kind: expected impression or click, found {record['kind']}")
        if revenue < 0:
            raise ValueError(f"revenue: expected 0 or more, found {revenue}")
        visit = state.value or {"first_at": at, "last_at": at, "impressions": 0, "clicks": 0, "revenue": Decimal(0)}
        if at < visit["first_at"] - PAUSE:
            raise ValueError(f"the visit of {at} has ended: the open one has begun at {visit['first_at']}")
        visit["first_at"] = min(at, visit["first_at"])
        visit["last_at"] = max(at, visit["last_at"])
        visit[COUNTED[record["kind"]]] += 1
        visit["revenue"] += revenue
        state.value = visit
        state.expires_at = min(visit["last_at"] + PAUSE, visit["first_at"] + LONGEST)

    def on_expiry(self, key: str, state: State) -> Iterator[dict[str, Any]]:
        """Return the row of the visit that has ended."""
        visit = state.value
        duration_ms = (visit["last_at"] - visit["first_at"]) // timedelta(milliseconds=1)
        yield {"user_id": key, **visit, "duration_ms": duration_ms}


processor = Sessions()
