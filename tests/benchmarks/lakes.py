"""The same records into a Delta table: by Tideline, by Spark's own Kafka reader and Delta writer, and beside them Tideline's append to Postgres."""

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, ROUNDS, Scene, in_turns, table
from tideline import settings
from tideline.declaration import pipelines
from tideline.declaration.delta import DeltaSink

TITLE = f"{RECORDS:,} records of about 260 bytes, {PARTITIONS} partitions, into one Delta table"
_NAMES = {
    "delta": "(a) Tideline's write task into a Delta table",
    "append": "(b) Tideline's write task into a keyed Postgres table",
    "spark": "(c) Spark batch read + `from_json` + Spark's Delta writer",
}


class IntoLake:
    """The write task: a call loads the whole topic into a new Delta table, exactly once, with counts and history."""

    def __init__(self, pipeline: pipelines.Pipeline, folder: Path) -> None:
        self._pipeline = pipeline
        self._folder = folder
        self._round = 0

    def __call__(self) -> float:
        """Return the seconds from claim to publication."""
        self._round += 1
        name = f"{self._pipeline.name}_round_{self._round}"
        path = self._folder / name
        sink = DeltaSink(kind="delta", path=str(path))
        pipeline = self._pipeline.model_copy(update={"name": name, "sink": sink})
        return _checked(path, rivals.written(settings.ledger_url(), pipeline))


def by_spark(spark: SparkSession, pipeline: pipelines.Pipeline, path: Path) -> Callable[[], float]:
    """Return a function that loads with Spark's reader, from_json and its Delta writer, without any guarantee over several jobs."""
    rival = rivals.Rivals(settings.ledger_url(), pipeline, spark, Path("psql"))

    def load() -> float:
        begin = time.monotonic()
        rival.frame().write.format("delta").mode("append").save(str(path))
        return _checked(path, time.monotonic() - begin)

    return load


def _checked(path: Path, seconds: float) -> float:
    assert DeltaTable(str(path)).count() == RECORDS
    shutil.rmtree(path)
    return seconds


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    topic = scene.topic(RECORDS, PARTITIONS)
    pipeline = rivals.declare(scene.folder / "pipelines" / "lake", topic)
    lakes = scene.folder / "lakes"
    lakes.mkdir()
    ways: dict[str, Callable[[], float]] = {
        "delta": IntoLake(pipeline, lakes),
        "append": scene.loader("beside_lake", topic),
        "spark": by_spark(scene.spark, pipeline, lakes / "by_spark"),
    }
    seconds = in_turns(ways)
    return [
        f"One warm JVM, `local[2]`, all ways in turn, {ROUNDS} rounds after a warm-up.",
        "(a) and (b) promise exactly once, counts, rejects and history; (c) promises nothing over a second try.",
        "",
        *table(
            ("way", "best, s", "median, s", "records/s (best)", "(a) is faster by"),
            (
                (
                    _NAMES[name],
                    f"{min(found):.2f}",
                    f"{statistics.median(found):.2f}",
                    f"{RECORDS / min(found):,.0f}",
                    f"{min(found) / min(seconds['delta']):.2f}x best, {_median_ratio(found, seconds['delta']):.2f}x median of rounds",
                )
                for name, found in seconds.items()
            ),
        ),
    ]


def _median_ratio(seconds: list[float], ours: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(seconds, ours, strict=True))
