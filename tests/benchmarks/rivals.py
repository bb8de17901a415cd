"""The same records into the same keyed table, by Tideline's write task and by the alternatives that it replaces. All share one warm JVM."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from confluent_kafka import Producer
from psycopg2.sql import SQL, Identifier
from pyspark.sql import DataFrame, SparkSession, functions

from tideline import flow
from tideline.declaration import pipelines
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.spark_jobs import write_batches

FIELDS = {
    "impression_id": "string",
    "offer_id": "bigint",
    "user_id": "string",
    "placement": "string",
    "country": "string",
    "device": "string",
    "price_micros": "bigint",
    "shown_at": "timestamp",
}
TOO_DEAR = 20_000
"""The price from which on the table refuses a row."""
Spoil = Callable[[int, dict[str, Any]], bytes]
"""Returns the bytes of a record, from its number and its fields."""
_TYPES = {"string": "text", "bigint": "bigint", "timestamp": "timestamptz"}


_WAITING = 50_000
"""Maximum number of unacknowledged records: a broker of one gigabyte may run out of memory with half a million at once for 500 partitions."""


def fill(bootstrap: str, topic: str, count: int, partitions: int, *, spoil: Spoil | None = None) -> None:
    """Send `count` records of about 260 bytes, evenly over the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 200_000,
        }
    )
    for number in range(count):
        value = {
            "impression_id": f"{number:032x}",
            "offer_id": number % 411,
            "user_id": f"user-{number % 50_000}",
            "placement": f"site-{number % 300}/slot-{number % 8}/{number * 7919 % 1_000_003:07}",
            "country": ("DE", "FR", "GB", "JP", "BR", "US")[number % 6],
            "device": ("phone", "desktop", "tablet")[number % 3],
            "price_micros": number * 31 % TOO_DEAR,
            "shown_at": f"2026-01-02T03:{number // 60 % 60:02}:{number % 60:02}.{number % 1000:03}Z",
        }
        record = spoil(number, value) if spoil else json.dumps(value)
        while len(producer) >= _WAITING:
            producer.poll(0.1)
        producer.produce(topic, record, partition=number % partitions)
    assert producer.flush(300) == 0


def declare(
    folder: Path, topic: str, *, batch_records: int = 1_000_000, sink: Mapping[str, object] | None = None
) -> pipelines.Pipeline:
    """Declare a pipeline with columns only, which the alternatives can do as well. By default it appends to a table."""
    folder.mkdir(parents=True, exist_ok=True)
    output = json.dumps(sink or {"table": f"bench.{folder.name}"})
    columns = "".join(f"      {name}: {kind}\n" for name, kind in FIELDS.items())
    (folder / "pipeline.yaml").write_text(
        f"description: The benchmark\nschedule: null\nsource:\n  bootstrap_servers: {{env: TIDELINE_KAFKA}}\n  topics: [{topic}]\n"
        f"  value:\n    format: json\n    columns:\n{columns}sink: {output}\nlimits:\n  batch_records: {batch_records}\n"
    )
    if not sink or "table" in sink:
        (folder / "target.sql").write_text("CREATE SCHEMA IF NOT EXISTS bench;\n" + table(folder.name))
    return pipelines.load(folder)


def declare_upsert(folder: Path, topic: str, *, batch_records: int = 1_000_000) -> pipelines.Pipeline:
    """Declare the same with an upsert by `impression_id`."""
    sink = {"table": f"bench.{folder.name}", "mode": "upsert", "key": ["impression_id"]}
    declare(folder, topic, batch_records=batch_records, sink=sink)
    target = folder / "target.sql"
    text = target.read_text().replace("(kafka_topic_id, kafka_partition, kafka_offset)", "(impression_id)")
    for column in ("topic_id uuid", "partition integer", "offset bigint"):
        text = text.replace(f"kafka_{column}", f"kafka_{column} NOT NULL")
    target.write_text(text)
    return pipelines.load(folder)


def table(name: str) -> str:
    """Return the statement for the keyed table that all of them fill."""
    columns = "".join(f"    {field} {_TYPES[kind]},\n" for field, kind in FIELDS.items())
    columns += f"    CHECK (price_micros < {TOO_DEAR}),\n"
    return (
        f"CREATE TABLE bench.{name} (\n{columns}    kafka_topic_id uuid,\n    kafka_partition integer,\n    kafka_offset bigint,\n"
        "    tideline_batch bigint NOT NULL,\n    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)\n);\n"
    )


class Tideline:
    """The write task: a call loads the whole topic into a new table, exactly once, with counts and history.

    Args:
        url: libpq URI of the ledger.
        pipeline: What to load.
    """

    def __init__(self, url: str, pipeline: pipelines.Pipeline) -> None:
        self._url = url
        self._pipeline = pipeline
        self._round = 0

    def __call__(self) -> float:
        """Return the seconds from claim to publication."""
        self._round += 1
        name = f"{self._pipeline.name}_round_{self._round}"
        # A new name is a new pipeline: it begins at the first offset again, and shares the table with those before it.
        sink = self._pipeline.sink.model_copy(update={"shared": True})
        pipeline = self._pipeline.model_copy(update={"name": name, "sink": sink})
        with Ledger(self._url, actor="bench") as ledger, ledger.connection as connection:
            connection.cursor().execute(
                SQL("DROP TABLE IF EXISTS {}").format(Identifier(*pipeline.table_sink.table.split(".")))
            )
        return written(self._url, pipeline)


def written(url: str, pipeline: pipelines.Pipeline) -> float:
    """Plan and write all new records of a pipeline. Return the seconds from the first claim to the last publication."""
    run = Run(dag_id=pipeline.name, run_id="bench")
    writer = Writer(dag_id=pipeline.name, run_id="bench", task_id="write", try_number=1)
    with Ledger(url, actor="bench") as ledger:
        batch_ids = flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
        begin = time.monotonic()
        for batch_id in batch_ids:
            write_batches.write(ledger, pipeline, batch_id, writer)
        return time.monotonic() - begin


class Rivals:
    """The alternatives, over one filled topic.

    Args:
        url: libpq URI of a database with an empty ledger.
        pipeline: The pipeline that Tideline loads; the alternatives read the same topic.
        spark: The session that all of them use.
        psql: The psql program.
    """

    def __init__(self, url: str, pipeline: pipelines.Pipeline, spark: SparkSession, psql: Path) -> None:
        self._url = url
        self._pipeline = pipeline
        [self._topic] = pipeline.source.topics or ()
        self._spark = spark
        self._psql = psql
        self._servers = pipeline.source.brokers.connection()["bootstrap_servers"]

    def jdbc(self, **options: str) -> Callable[[], float]:
        """(b), (c) Load with Spark's reader, from_json and its JDBC writer, without any guarantee."""
        parts = psycopg2.extensions.parse_dsn(self._url)
        url = f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}"

        def load() -> float:
            with self._table("jdbc"):
                begin = time.monotonic()
                writer = (
                    self.frame().write.format("jdbc").mode("append").option("url", url).option("dbtable", "bench.jdbc")
                )
                writer.options(
                    user=parts["user"], password=parts["password"], driver="org.postgresql.Driver", **options
                ).save()
                return time.monotonic() - begin

        return load

    def into(self, name: str, load: Callable[[], float]) -> float:
        """Return the seconds of a loader that fills a new table of this name."""
        with self._table(name):
            return load()

    def copy(self, file: Path) -> float:
        """(d) Load the same rows from a file with psql COPY, in one stream: no Kafka, no JSON, no Spark."""
        with self._table("copied"):
            begin = time.monotonic()
            self._run_psql(f"\\copy bench.copied FROM '{file}'")
            return time.monotonic() - begin

    def export(self, file: Path) -> None:
        """Write the rows of Tideline's table to a COPY file."""
        self._run_psql(f"\\copy {self._pipeline.table_sink.table} TO '{file}'")

    def frame(self) -> DataFrame:
        """Return the rows, read by Spark's Kafka reader and parsed by from_json."""
        raw = self._spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers)
        records = raw.option("subscribe", self._topic).load()
        schema = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
        row = functions.from_json(functions.col("value").cast("string"), schema).alias("row")
        frame = records.select(row, "partition", "offset").select("row.*", "partition", "offset")
        return frame.withColumnsRenamed({"partition": "kafka_partition", "offset": "kafka_offset"})

    @contextmanager
    def _table(self, name: str) -> Iterator[None]:
        connection = psycopg2.connect(self._url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS bench.{name}")
                # The alternatives have no topic id and no batch to write.
                cursor.execute(table(name).replace("bigint NOT NULL", "bigint"))
                cursor.execute(
                    f"ALTER TABLE bench.{name} ALTER kafka_topic_id SET DEFAULT '00000000-0000-0000-0000-000000000001'"
                )
            yield
            with connection, connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE bench.{name}")
        finally:
            connection.close()

    def _run_psql(self, command: str) -> None:
        parts = psycopg2.extensions.parse_dsn(self._url)
        environment = {"PGPASSWORD": parts.pop("password")}
        parts = {
            "PGHOST": parts["host"],
            "PGPORT": parts["port"],
            "PGUSER": parts["user"],
            "PGDATABASE": parts["dbname"],
        }
        subprocess.run([str(self._psql), "--quiet", "--command", command], env=environment | parts, check=True)
