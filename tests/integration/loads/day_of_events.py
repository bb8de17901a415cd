"""A day of events of many users, as producers send them, and what pandas makes of it.

The users' activity follows the hours of the day, and few users make most events. Most events arrive at once, some a
little out of order, and some late, after a phone was offline. Pandas sorts nothing and keeps no state: it computes the
sessions of the whole day at once, from the events that were in time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # its stubs are another package

DAY = datetime(2026, 11, 1, tzinfo=UTC)
HOURS = 24
PARTITIONS = 4
GAP, LATENESS = pd.Timedelta(minutes=30), pd.Timedelta(minutes=10)
OUT_OF_ORDER, LATE, NAMELESS = 0.01, 0.05, 0.001

TRANSFORM = """\
from datetime import timedelta

from tideline.processors import Processor

GAP = timedelta(minutes=30)


class Sessions(Processor):
    rows = {"user_id": "string", "first": "timestamp", "last": "timestamp", "clicks": "bigint", "revenue": "decimal(18,2)"}

    def on_record(self, key, record, state):
        at = record["at"]
        value = state.value or {"first": at, "last": at, "clicks": 0, "revenue": 0}
        state.value = {
            "first": min(value["first"], at),
            "last": max(value["last"], at),
            "clicks": value["clicks"] + 1,
            "revenue": value["revenue"] + record["price"],
        }
        state.expires_at = state.value["last"] + GAP

    def on_expiry(self, key, state):
        yield {"user_id": key, **state.value}


processor = Sessions()
"""
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    user_id text NOT NULL,
    first timestamptz NOT NULL,
    last timestamptz NOT NULL,
    clicks bigint NOT NULL,
    revenue numeric(18, 2) NOT NULL,
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""
STATE = {
    "key": "user_id",
    "columns": {"first": "timestamp", "last": "timestamp", "clicks": "bigint", "revenue": "decimal(18,2)"},
    "event_time": "at",
    "lateness_minutes": 10,
}
SOURCE = {"user_id": "string", "at": "timestamp", "price": "decimal(18,2)"}


@dataclass(frozen=True, slots=True)
class Day:
    """Events in the order in which they arrive, with partition, offset, batch, user, event time and cents."""

    events: pd.DataFrame

    @classmethod
    def drawn(cls, seed: int, count: int, batches: int) -> "Day":
        """Draw a day, which is loaded in so many batches."""
        random = np.random.default_rng(seed)
        by_hour = 1.2 + np.sin((np.arange(HOURS) - 9) * np.pi / 12)
        hour = random.choice(HOURS, count, p=by_hour / by_hour.sum())
        at = hour * 3600 + random.random(count) * 3600
        delay = random.random(count) * 2
        kind = random.random(count)
        delay = np.where(kind < LATE + OUT_OF_ORDER, random.uniform(5, 9 * 60, count), delay)
        delay = np.where(kind < LATE, random.exponential(3600, count) + 600, delay)
        user = np.minimum(random.zipf(1.3, count), 1 + count // 20)
        events = pd.DataFrame({"user": user, "at_s": np.round(at, 3), "arrival_s": at + delay})
        events["cents"] = random.integers(1, 20_000, count)
        events = events.sort_values("arrival_s", kind="stable").reset_index(drop=True)
        events["batch"] = np.minimum(events["arrival_s"] * batches // (HOURS * 3600), batches - 1).astype(int)
        events["partition"] = events["user"] % PARTITIONS
        events["offset"] = events.groupby("partition").cumcount()
        events["nameless"] = random.random(count) < NAMELESS
        events["at"] = pd.Timestamp(DAY) + pd.to_timedelta((events["at_s"] * 1000).round().astype("int64"), unit="ms")
        return cls(events)

    def arriving(self, batch: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the values that each partition gets before a batch is loaded, as JSON."""
        for partition, part in self.events[self.events["batch"] == batch].groupby("partition"):
            users = np.where(part["nameless"], "null", '"u' + part["user"].astype(str) + '"')
            moments = part["at"].dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            values = zip(users, moments, part["cents"], strict=True)
            yield (
                int(partition),
                [f'{{"user_id": {user}, "at": "{at}", "price": "{cents / 100:.2f}"}}' for user, at, cents in values],
            )

    def rejected(self) -> pd.Series:
        """Return which events are rejects: those without a user, and those before the watermark of their stream at the
        end of the batch before."""
        named = self.events[~self.events["nameless"]]
        late = pd.Series(False, index=self.events.index)
        for _, stream in named.groupby("partition"):
            latest = pd.Timestamp.min.tz_localize(UTC) + LATENESS
            for _, part in stream.groupby("batch"):
                in_time = part["at"] >= latest - LATENESS
                late[part.index[~in_time]] = True
                latest = max(latest, part["at"][in_time].max())
        return late | self.events["nameless"]

    def sessions(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the sessions that are over at the end of the day, and those that are still open."""
        folded = self.events[~self.rejected()].copy()
        latest = folded.groupby("user")["at"].cummax()
        before = latest.groupby(folded["user"]).shift()
        folded["session"] = (before.isna() | (folded["at"] >= before + GAP)).groupby(folded["user"]).cumsum()
        found = folded.groupby(["user", "session"], as_index=False).agg(
            first=("at", "min"),
            last=("at", "max"),
            clicks=("at", "size"),
            cents=("cents", "sum"),
            partition=("partition", "first"),
        )
        is_last = found["session"] == found.groupby("user")["session"].transform("max")
        watermark = found["partition"].map(folded.groupby("partition")["at"].max()) - LATENESS
        is_open = is_last & (found["last"] + GAP > watermark)
        return found[~is_open], found[is_open]
