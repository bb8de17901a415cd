"""A stateful pipeline compared with an append of the same records: first over a state of as many keys as a batch touches, then over a large one."""

import json
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, Scene, in_turns, say, table
from tideline import flow, settings
from tideline.declaration import pipelines
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.spark_jobs import write_batches

RECORDS = 27_778 * PARTITIONS
"""About 500,000. A multiple of the partitions, so that each batch ends in all of them at a pause between visits."""
KEYS = 5_556 * PARTITIONS
"""About 100,000. A multiple of the partitions, so that the records of a key are in one partition."""
STORED_TIMES = 100
ROUNDS = 3
BATCHES = 1 + ROUNDS
"""The first is the warm-up."""
START = datetime(2026, 1, 2, tzinfo=UTC)
TITLE = f"States of {KEYS:,} keys"
PROCESSOR = '''"""Visits: a pause of half an hour ends one."""

from datetime import timedelta

from tideline.processors import Processor

PAUSE = timedelta(minutes=30)


class Visits(Processor):
    """Counts the impressions of a visit and adds up their prices."""

    rows = {"user_id": "string", "first": "timestamp", "last": "timestamp", "n": "bigint", "micros": "bigint"}

    def on_record(self, key, record, state):
        at = record["shown_at"]
        visit = state.value or {"first": at, "last": at, "n": 0, "micros": 0}
        visit["n"] += 1
        visit["micros"] += record["price_micros"]
        visit["last"] = max(visit["last"], at)
        state.value, state.expires_at = visit, visit["last"] + PAUSE

    def on_expiry(self, key, state):
        yield {"user_id": key, **state.value}


processor = Visits()
'''
_TABLE = """CREATE SCHEMA IF NOT EXISTS bench;
CREATE TABLE bench.{name} (
    user_id text, first timestamptz, last timestamptz, n bigint, micros bigint,
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


_STORE = """INSERT INTO tideline.state (pipeline, key, stream_id, value, expires_at, kafka_offset, batch_id)
SELECT
    %(pipeline)s, jsonb_build_array('user-' || k || CASE WHEN copy > 0 THEN '/' || copy ELSE '' END)::text, stream_id,
    '{"first": "2026-01-01T00:00:00Z", "last": "2026-01-01T00:00:00Z", "n": 5, "micros": 50000}',
    CASE WHEN copy > 0 THEN timestamptz '2027-01-01Z' + k * interval '1 second' ELSE '2026-01-01T00:30Z' END, k / %(partitions)s, 0
FROM generate_series(0, %(keys)s - 1) AS k, generate_series(0, %(times)s - 1) AS copy, tideline.stream
WHERE stream.pipeline = %(pipeline)s AND stream.partition = k %% %(partitions)s
ORDER BY hashint8(k * %(times)s::bigint + copy)
"""


def measure(scene: Scene) -> list[str]:
    """Return the section's lines. Millions of states are stored only after the small state was compared with append."""
    assert scene.spark
    topic = scene.topic(2 * BATCHES * RECORDS, PARTITIONS, spoil=event)
    url, folders = settings.ledger_url(), scene.folder / "pipelines"
    few, many = f"visits, {KEYS:,} states stored", f"visits, {KEYS * STORED_TIMES:,} states stored"
    append = EachBatch(url, rivals.declare(folders / "plain", topic, batch_records=RECORDS))
    visits = EachBatch(url, declare(folders / "visits", topic), stored_times=1)
    first = in_turns({"append": append, few: visits}, rounds=ROUNDS)
    visits_of_many = EachBatch(url, declare(folders / "visits_of_many", topic), stored_times=STORED_TIMES)
    then = in_turns({few: visits, many: visits_of_many}, rounds=ROUNDS)
    rate, cost = _median_ratio(first["append"], first[few]), _median_ratio(then[many], then[few])
    return [
        f"The write task over {RECORDS:,} records in {PARTITIONS} partitions, claim to published, `local[2]`, {ROUNDS} rounds.",
        f"Each batch ends the visit of each of {KEYS:,} users, writes it as a row, and begins another.",
        "",
        *table(
            ("way", "median, s", "records/s (median)", "rate relative to append in the same round", "asked"),
            [
                _row("append", first["append"], "1.00", ""),
                _row(few, first[few], f"{rate:.2f}", "at least 0.4 of append"),
            ],
        ),
        "",
        f"Then in turn with a second such pipeline that keeps {KEYS * STORED_TIMES:,} states, most of users who are silent. These lie",
        "between those of the topic's users, in the index and in the table. Postgres has 1 GB of shared buffers.",
        "",
        *table(
            (
                "way",
                "median, s",
                "records/s (median)",
                "seconds relative to the small state in the same round",
                "asked",
            ),
            [_row(few, then[few], "1.00", ""), _row(many, then[many], f"{cost:.2f}", "at most 1.3")],
        ),
    ]


def _row(way: str, seconds: Sequence[float], ratio: str, asked: str) -> tuple[str, ...]:
    median = statistics.median(seconds)
    return way, f"{median:.2f}", f"{RECORDS / median:,.0f}", ratio, asked


def _median_ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(first / second for first, second in zip(one, other, strict=True))


def event(number: int, value: dict[str, Any]) -> bytes:
    """Return the record with a user and an event time. Before each batch is a pause, in which all visits end."""
    at = START + timedelta(milliseconds=number) + number // RECORDS * timedelta(hours=1)
    return json.dumps({**value, "user_id": f"user-{number % KEYS}", "shown_at": at.isoformat()}).encode()


def declare(
    folder: Path, topic: str, *, batch_records: int = RECORDS, more_columns: str = "", more_code: str = ""
) -> pipelines.Pipeline:
    """Declare a stateful pipeline over the records."""
    rivals.declare(folder, topic, batch_records=batch_records, sink={"table": f"bench.{folder.name}"})
    with (folder / "pipeline.yaml").open("a") as file:
        file.write(
            "state:\n  key: user_id\n  event_time: shown_at\n  lateness_minutes: 10\n"
            f"  columns: {{first: timestamp, last: timestamp, n: bigint, micros: bigint{', ' * bool(more_columns)}{more_columns}}}\n"
        )
    (folder / "transform.py").write_text(PROCESSOR + more_code)
    (folder / "target.sql").write_text(_TABLE.format(name=folder.name))
    return pipelines.load(folder)


class EachBatch:
    """The write task over one batch of a topic after the other.

    Args:
        url: libpq URI of the ledger.
        pipeline: What to load.
        stored_times: How many states are stored before the first batch, for each key of the topic; 0 without state.
    """

    def __init__(self, url: str, pipeline: pipelines.Pipeline, stored_times: int = 0) -> None:
        self._url = url
        self._pipeline = pipeline
        self._writer = Writer(dag_id=pipeline.name, run_id="bench", task_id="write", try_number=1)
        self._left: list[int] = []
        with Ledger(url, actor="bench") as ledger:
            run = Run(dag_id=pipeline.name, run_id="bench")
            self._left += flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
        if stored_times:
            self._store(stored_times)

    def __call__(self) -> float:
        """Return the seconds from claim to publication of the next batch."""
        with Ledger(self._url, actor="bench") as ledger:
            begin = time.monotonic()
            write_batches.write(ledger, self._pipeline, self._left.pop(0), self._writer)
            return time.monotonic() - begin

    def _store(self, times: int) -> None:
        """Store states, in no order. Those of the topic's users are due at their next record, all others next year."""
        say(f"storing {KEYS * times:,} states")
        connection = psycopg2.connect(self._url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("ALTER TABLE tideline.state DISABLE TRIGGER USER")
                cursor.execute(
                    _STORE, {"pipeline": self._pipeline.name, "keys": KEYS, "times": times, "partitions": PARTITIONS}
                )
                cursor.execute("ALTER TABLE tideline.state ENABLE TRIGGER USER")
            connection.autocommit = True
            connection.cursor().execute("VACUUM (ANALYZE) tideline.state")
            # Otherwise the server would write gigabytes to disk in the rounds that are measured.
            connection.cursor().execute("CHECKPOINT")
        finally:
            connection.close()
