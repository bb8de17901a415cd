"""The points of the charts: what each batch has read, and what the pipeline had left to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tideline.ledger.queries import Row
from tideline.web.broker_cache import Compared
from tideline.web.rendering import roughly


@dataclass(frozen=True, slots=True)
class Now:
    """What Kafka has said last."""

    at: datetime
    n_left: int
    behind: str | None
    """How long the oldest of them has been there at least, roughly."""


def now(batches: Sequence[Row], answer: tuple[datetime, Compared] | None) -> Now | None:
    """Return the lag that Kafka has said last; None if it has not answered since the newest batch."""
    if answer is None or answer[1].problem or (batches and answer[0] <= batches[-1]["ended_at"]):
        return None
    at, found = answer
    known = [row for row in found.rows if row["state"] != "retired" and row["lag"] is not None]
    behind = max((row.get("behind_seconds_at_least") or 0 for row in known), default=0)
    return Now(at, sum(row["lag"] for row in known), roughly(behind) if behind else None) if known else None


def points(batches: Sequence[Row], now: Now | None) -> Mapping[str, Sequence[float | None]]:
    """Return the series over one axis of time, in seconds since 1970. Where a series says nothing it has None."""
    at: list[float] = [row["ended_at"].timestamp() for row in batches]
    per_second: list[float | None] = [round(row["n_read"] / max(row["seconds"], 0.001), 1) for row in batches]
    left: list[float | None] = [row["n_left"] for row in batches]
    if now:
        at.append(now.at.timestamp())
        per_second.append(None)
        left.append(now.n_left)
    return {"at": at, "per_second": per_second, "left": left}
