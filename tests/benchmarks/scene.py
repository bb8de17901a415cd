"""The environment of measurements: a separate stack with an empty ledger, and one warm Spark session for all that need one."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

import records
from benchmarks import rivals
from tideline import settings
from tideline.spark_jobs.session import session
from tideline_stack.airflow_processes import AirflowOptions
from tideline_stack.stack import Stack

_POSTGRES = {"shared_buffers": "1GB"}
"""A server that keeps millions of states has more than the 256 MB of the local stack. With these, a batch over them took a tenth longer."""
RECORDS = 545_884
PARTITIONS = 18
ROUNDS = 4


@dataclass(frozen=True)
class Scene:
    """A temporary folder and the stack in it."""

    folder: Path
    stack: Stack

    @cached_property
    def spark(self) -> SparkSession:
        """Create a session as the write task does, with the driver memory that all alternatives get."""
        properties = self.stack.environment()["TIDELINE_SPARK_PROPERTIES"]
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f"--master local[2] --properties-file {properties} --driver-memory 2g {_delta()} pyspark-shell"
        )
        return session("bench")

    def topic(self, count: int, partitions: int, *, spoil: rivals.Spoil | None = None) -> str:
        """Create a topic with so many records, evenly over its partitions."""
        bootstrap = self.stack.broker.bootstrap
        name = records.create(bootstrap, partitions=partitions)
        say(f"producing {count:,} records into {partitions} partitions")
        rivals.fill(bootstrap, name, count, partitions, spoil=spoil)
        return name

    def loader(self, name: str, topic: str) -> Callable[[], float]:
        """Return a function that loads the whole topic into a new table and returns the seconds that the write has taken."""
        pipeline = rivals.declare(self.folder / "pipelines" / name, topic)
        return rivals.Tideline(settings.ledger_url(), pipeline)


def _delta() -> str:
    """Return the options with which the session has Spark's own Delta writer, one of the alternatives."""
    jars = ",".join(map(str, sorted((settings.PROJECT / ".local" / "jars" / "delta").glob("*.jar"))))
    return (
        f"--jars {jars} --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
        "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )


@contextmanager
def scene(folder: Path, *, airflow: bool = False) -> Iterator[Scene]:
    """Start a stack; the process has its environment."""
    options = AirflowOptions(dags=settings.PROJECT / "dags", plugins=settings.PROJECT / "plugins") if airflow else None
    os.environ["TIDELINE_PIPELINES"] = str(folder / "pipelines")
    place = folder / ("airflow" if airflow else "stack")
    with Stack(place, airflow=options, postgres_settings=_POSTGRES) as stack:
        # One user does everything in this process, which plans, writes and prepares tables. Airflow has the roles.
        one_user = {"TIDELINE_LEDGER_URL": stack.postgres.url("warehouse")}
        roles = (settings.WRITER_URL, settings.STAGER_URL, settings.READER_URL)
        os.environ.update({name: value for name, value in stack.environment().items() if name not in roles} | one_user)
        yield Scene(folder, stack)


def in_turns(ways: Mapping[str, Callable[[], float]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return seconds of each way by round, after a warm-up. Ways alternate, so that a noisy moment affects all alike."""
    for way in ways.values():
        way()  # warm-up: compiled code, cached pages
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in ways.items():
            seconds[name].append(way())
            say(f"round {number + 1}, {name}: {seconds[name][-1]:.2f} s")
    return seconds


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a Markdown table."""
    heads = list(heads)
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]


def say(text: str) -> None:
    """Print progress for the person who waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
