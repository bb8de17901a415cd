"""The write task compared with the alternatives that it replaces."""

import statistics
from collections.abc import Callable

from benchmarks import by_hand, rivals
from benchmarks.scene import PARTITIONS, RECORDS, ROUNDS, Scene, in_turns, table
from tideline import settings
from tideline_stack.postgres import programs

TITLE = f"{RECORDS:,} records of about 260 bytes, {PARTITIONS} partitions, into one keyed table"
_NAMES = {
    "a": "(a) Tideline's write task: claim to published",
    "b": "(b) Spark batch read + `from_json` + JDBC, defaults",
    "c": "(c) the same with `reWriteBatchedInserts` and `batchsize` 10000",
    "e": "(e) by hand: librdkafka, `pyarrow.json` and COPY, a process for each core",
    "d": "(d) `psql \\\\copy` of the same rows from a file, one stream",
}


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    pipeline = rivals.declare(scene.folder / "pipelines" / "loaded", scene.topic(RECORDS, PARTITIONS))
    field = rivals.Rivals(settings.ledger_url(), pipeline, scene.spark, programs() / "psql")
    tideline = rivals.Tideline(settings.ledger_url(), pipeline)
    file = scene.folder / "rows.copy"
    ways: dict[str, Callable[[], float]] = {
        "a": tideline,
        "b": field.jdbc(),
        "c": field.jdbc(reWriteBatchedInserts="true", batchsize="10000"),
        "d": lambda: field.copy(file),
    }
    tideline()
    field.export(file)
    file.chmod(0o644)
    [topic] = pipeline.source.topics or ()
    with by_hand.running(settings.ledger_url(), scene.stack.broker.bootstrap, topic, PARTITIONS) as load:
        seconds = in_turns({**ways, "e": lambda: field.into("by_hand", load)})
    best = {name: min(found) for name, found in seconds.items()}
    return [
        f"One warm JVM, `local[2]`, all ways in turn, {ROUNDS} rounds after a warm-up.",
        "Only (a) promises anything: exactly once, counts, rejects, history.",
        "",
        *table(
            ("way", "best, s", "median, s", "records/s (best)", "(a) is faster by"),
            (
                (
                    _NAMES[name],
                    f"{best[name]:.2f}",
                    f"{statistics.median(found):.2f}",
                    f"{RECORDS / best[name]:,.0f}",
                    f"{best[name] / best['a']:.2f}x best, {_median_ratio(found, seconds['a']):.2f}x median of rounds",
                )
                for name, found in seconds.items()
            ),
        ),
    ]


def _median_ratio(seconds: list[float], ours: list[float]) -> float:
    """Return the median over rounds of the time relative to ours in the same round."""
    return statistics.median(one / other for one, other in zip(seconds, ours, strict=True))
