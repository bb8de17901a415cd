"""The loader that a team writes in a day: a process for each core reads with librdkafka, parses with pyarrow and copies. It promises nothing."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.json as pj
from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks import rivals

_AT_ONCE = 20_000
"""Records of one consume, one parse and one COPY."""
_PATIENCE_S = 30.0
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}
_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in rivals.FIELDS.items()])


@contextmanager
def running(url: str, bootstrap: str, topic: str, partitions: int) -> Iterator[Callable[[], float]]:
    """Start the processes. Yield a function that loads the whole topic into `bench.by_hand`, and returns the seconds from first read to last commit.

    Args:
        url: libpq URI of the database.
        bootstrap: Addresses of the brokers.
        topic: What to load.
        partitions: How many partitions it has.
    """
    n_processes = os.cpu_count() or 1
    tasks = [(url, bootstrap, topic, list(range(number, partitions, n_processes))) for number in range(n_processes)]
    with multiprocessing.get_context("spawn").Pool(n_processes) as pool:

        def load() -> float:
            begin = time.monotonic()
            pool.starmap(_load, tasks, chunksize=1)
            return time.monotonic() - begin

        yield load


def _load(url: str, bootstrap: str, topic: str, partitions: list[int]) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "by-hand", "enable.auto.commit": False}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 10, "queued.max.messages.kbytes": 262_144})
    try:
        ends = {number: consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in partitions}
        left = sum(ends.values())
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        with closing(adbc.connect(url)) as connection, connection.cursor() as cursor:
            while left:
                found = consumer.consume(min(_AT_ONCE, left), timeout=_PATIENCE_S)
                if not found:
                    raise TimeoutError(f"{left} records of {topic} did not come within {_PATIENCE_S:.0f} s")
                left -= len(found)
                cursor.adbc_ingest("by_hand", _rows(found), mode="append", db_schema_name="bench")
            connection.commit()
    finally:
        consumer.close()


def _rows(found: list[Message]) -> pa.Table:
    """Parse the values all at once, as lines, and add where each record is."""
    lines = pa.py_buffer(b"\n".join(record.value() for record in found))
    parsed = pj.read_json(pa.BufferReader(lines), parse_options=pj.ParseOptions(explicit_schema=_SCHEMA))
    places = pa.array([record.partition() for record in found], pa.int32())
    return parsed.append_column("kafka_partition", places).append_column(
        "kafka_offset", pa.array([record.offset() for record in found], pa.int64())
    )
