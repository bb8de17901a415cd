"""Declare a pipeline in a folder, and run its three verbs as a DAG run does; see what its output and its ledger hold afterwards."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from pyspark.sql import SparkSession

import records
from tideline import flow
from tideline.declaration import pipelines
from tideline.deployment import secret
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, Ranges, Request
from tideline.errors import TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.spark_jobs import write_batches

COLUMNS = {"id": "bigint", "name": "string", "price": "decimal(12,4)"}
TARGET = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint NOT NULL,
    name text,
    price numeric(12, 4) CHECK (price < 1000),
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """One declared pipeline with a ledger of its own."""

    folder: Path
    bootstrap: str
    url: str
    spark: SparkSession
    writer_url: str | None = None
    """The URL of the role that drivers have. None if one user does everything."""

    def declare(
        self,
        topic: str,
        *,
        columns: Mapping[str, str] | None = None,
        value_format: str = "json",
        transform: str = "",
        target: str = TARGET,
        table: str = "ads.output",
        item: str | None = None,
        shared: bool = False,
        sink: Mapping[str, object] | None = None,
        batch_records: int = 1_000_000,
        fail_above: float = 0.5,
        limits: Mapping[str, int] | None = None,
        state: Mapping[str, object] | None = None,
        **source: object,
    ) -> None:
        """Write the pipeline's folder; `source` holds more keys of the section, such as `gaps` or `security`."""
        if columns is None:
            columns = COLUMNS if value_format == "json" else {}
        declaration = {
            "description": "A test",
            "source": {
                "bootstrap_servers": {"env": "TIDELINE_KAFKA"},
                "topics": [topic],
                "value": {"format": value_format, "columns": columns},
                **source,
            },
            "sink": {
                **({} if sink and "kind" in sink else {"table": table}),
                **({"item": item} if item else {}),
                **({"shared": True} if shared else {}),
                **(sink or {}),
            },
            "limits": {"batch_records": batch_records, **(limits or {})},
            "rejects": {"fail_above": fail_above},
            **({"state": state} if state else {}),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "pipeline.yaml").write_text(json.dumps(declaration))  # JSON is YAML
        (self.folder / "target.sql").write_text(target)
        self.transform(transform)

    def transform(self, text: str) -> None:
        """Replace transform.py; remove it where `text` is empty."""
        (self.folder / "transform.py").unlink(missing_ok=True)
        if text:
            (self.folder / "transform.py").write_text(dedent(text))

    def address_in_code(self) -> str:
        """Return a Python expression of the ledger's URL for a transform. The URL itself is in a file that only its owner may read."""
        file = self.folder.parent / "password"
        secret.write(file, self.url)
        return f"__import__('pathlib').Path({str(file)!r}).read_text()"

    @property
    def pipeline(self) -> pipelines.Pipeline:
        return pipelines.load(self.folder)

    @contextmanager
    def ledger(self) -> Iterator[Ledger]:
        with Ledger(self.url, actor="test") as ledger:
            yield ledger

    def plan(self, run_id: str, request: Request | None = None, *, reason: str | None = None) -> list[int]:
        """Plan a run for a request, or for new records; return its batches."""
        run = Run(dag_id="test", run_id=run_id)
        with self.ledger() as ledger:
            return flow.plan(
                ledger, Broker(self.pipeline.source), self.pipeline, run, request or NewRecords(), reason=reason
            ).batch_ids

    def write(self, run_id: str, batch_ids: list[int], *, try_number: int = 1) -> None:
        writer = Writer(dag_id="test", run_id=run_id, task_id="write", try_number=try_number)
        with Ledger(self.writer_url or self.url, actor="test") as ledger:
            for batch_id in batch_ids:
                write_batches.write(ledger, self.pipeline, batch_id, writer)

    def advance(self, run_id: str) -> list[int]:
        with self.ledger() as ledger:
            return flow.advance(ledger, self.pipeline.name, Run(dag_id="test", run_id=run_id))

    def run(self, request: Request | None = None, *, reason: str | None = None) -> list[int]:
        """Plan, write and advance; return the batches."""
        run_id = f"manual__{uuid4().hex[:8]}"
        batch_ids = self.plan(run_id, request, reason=reason)
        self.write(run_id, batch_ids)
        self.advance(run_id)
        return batch_ids

    def rows(self, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows that a reader of the warehouse sees."""
        connection = psycopg2.connect(self.url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(sql, parameters)
                return cursor.fetchall()
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        """Execute statements in one transaction."""
        connection = psycopg2.connect(self.url)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def output(self) -> dict[tuple[int, int], tuple[Any, ...]]:
        """Return the table's rows by (partition, offset); fail if a coordinate is there twice."""
        rows = self.rows("SELECT kafka_partition, kafka_offset, id, name, price FROM ads.output")
        found = {(row[0], row[1]): row[2:] for row in rows}
        assert len(found) == len(rows)
        return found

    def rejects(self) -> dict[tuple[int, int], tuple[str, str, bytes | None]]:
        """Return (step, reason, value) by (partition, offset)."""
        rows = self.rows(
            "SELECT partition, kafka_offset, step, reason, value FROM tideline.reject JOIN tideline.stream USING (stream_id)"
        )
        return {(row[0], row[1]): (row[2], row[3], None if row[4] is None else bytes(row[4])) for row in rows}

    def counts(self) -> dict[str, int]:
        """Return sums over all published ranges."""
        names = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
        return dict(
            zip(
                names,
                self.rows(f"SELECT {', '.join(f'sum({n})::int' for n in names)} FROM tideline.batch_range")[0],
                strict=True,
            )
        )

    def heads(self) -> list[int]:
        """Return the next offset of each partition, in order."""
        return [row[0] for row in self.rows("SELECT next_offset FROM tideline.stream ORDER BY partition")]

    def attempts(self) -> list[tuple[str | None, str | None]]:
        """Return (outcome, problem) of each attempt, oldest first."""
        return self.rows("SELECT outcome, problem FROM tideline.attempt ORDER BY attempt_id")

    def states(self) -> list[str]:
        """Return the state of each batch, oldest first."""
        return [row[0] for row in self.rows("SELECT state::text FROM tideline.batch ORDER BY batch_id")]

    def staging_tables(self) -> list[str]:
        """Return the staging tables that still exist."""
        return [row[0] for row in self.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'tideline_staging'")]

    def refusal(self, error: type[TidelineError]) -> str:
        """Plan and write a batch that must fail with `error`; return its text.

        Nothing may be visible afterwards, and the ledger must have the same message as the error.
        """
        batch_ids = self.plan("refused")
        with pytest.raises(error) as caught:
            self.write("refused", batch_ids)
        assert self.states()[-1] == "failed"
        assert self.attempts()[-1] == ("failed", str(caught.value))
        assert self.published() == 0
        return str(caught.value)

    def published(self) -> int:
        """Return how many rows are visible; 0 if there is no table yet."""
        if self.rows("SELECT to_regclass('ads.output')") == [(None,)]:
            return 0
        [(count,)] = self.rows("SELECT count(*)::int FROM ads.output")
        return int(count)


# Changes each record's name, so that the output shows which transform has written it.
RENAMING = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    names = pc.binary_join_element_wise("new", batch["name"], " ")
    return batch.set_column(batch.schema.get_field_index("name"), "name", names)
"""


def ranges(*texts: str, replace: bool = False) -> Ranges:
    """Parse ranges as people write them."""
    return Ranges(ranges=tuple(map(NamedRange.parse, texts)), replace=replace)


def coverage(loading: Loading, partition: int = 0) -> list[tuple[int, int, int | str]]:
    """Return (start, end, batch or hole) of one partition, ascending."""
    return loading.rows(
        "SELECT lower(offsets), upper(offsets), coalesce(to_jsonb(batch_id), to_jsonb(hole)) FROM tideline.coverage"
        " JOIN tideline.stream USING (stream_id) WHERE partition = %s ORDER BY offsets",
        partition,
    )


def batches(loading: Loading) -> dict[int, tuple[str, str]]:
    """Return kind and state of each batch."""
    rows = loading.rows("SELECT batch_id, kind::text, state::text FROM tideline.batch ORDER BY batch_id")
    return {row[0]: row[1:] for row in rows}


def actions(loading: Loading, batch_id: int) -> list[str]:
    """Return the actions in a batch's history, in order."""
    rows = loading.rows("SELECT action FROM tideline.event WHERE batch_id = %s ORDER BY event_id", batch_id)
    return [row[0] for row in rows]


def owners(loading: Loading) -> dict[int, int]:
    """Return by offset the batch that each row of the output names; fail if partitions share an offset."""
    rows = loading.rows("SELECT kafka_offset, tideline_batch FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def names(loading: Loading) -> dict[int, str]:
    """Return by offset the name in each row of the output; fail if an offset is there twice."""
    rows = loading.rows("SELECT kafka_offset, name FROM ads.output")
    found = dict(rows)
    assert len(found) == len(rows)
    return found


def everything(loading: Loading) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return all columns of output and rejects except the batch, and for rejects also without attempt and time."""
    return (
        loading.rows(
            "SELECT to_jsonb(o) - 'tideline_batch' FROM ads.output o ORDER BY kafka_topic_id, kafka_partition, kafka_offset"
        ),
        loading.rows(
            "SELECT to_jsonb(r) - 'batch_id' - 'attempt_id' - 'rejected_at' FROM tideline.reject r ORDER BY stream_id, kafka_offset"
        ),
    )


def counts_of(loading: Loading, batch_id: int) -> dict[str, int]:
    """Return the sums over the ranges of one batch."""
    columns = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")
    sums = ", ".join(f"sum({column})::int" for column in columns)
    row = loading.rows(f"SELECT {sums} FROM tideline.batch_range WHERE batch_id = %s", batch_id)[0]
    return dict(zip(columns, row, strict=True))


ALL = KeptRejects()
# Raises for records by their name, and leaves others out.
FAULTY = """\
import pyarrow as pa, pyarrow.compute as pc

def records(batch):
    for name in batch["name"].to_pylist():
        if name in {faults!r}:
            raise ValueError({faults!r}[name])
    return batch.filter(pc.invert(pc.is_in(batch["name"], value_set=pa.array({left_out!r}, pa.string()))))
"""


def faulty(faults: Mapping[str, str] | None = None, left_out: Iterable[str] = ()) -> str:
    return FAULTY.format(faults=faults or {}, left_out=list(left_out))


WITH_A_BAD_RECORD = {"records": 30, "others": {7: b"{bad"}}
"""Arguments of the mark `topic` for what `load_with_rejects` loads."""


def load_with_rejects(loading: Loading, topic: str) -> None:
    """Load the records as the batches 1 and 2 of fifteen offsets; the offsets 3, 5, 7, 20 and 25 are rejected."""
    loading.declare(topic, batch_records=15, transform=faulty({"n3": "one", "n5": "two", "n20": "one", "n25": "two"}))
    assert loading.run() == [1, 2]
    assert set(loading.rejects()) == {(0, 3), (0, 5), (0, 7), (0, 20), (0, 25)}


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
