"""`make bench`: run everything and write docs/performance.md."""

import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

import records
from spark_jobs import write_batches
from tests.benchmarks import rivals
from tests.benchmarks.memory import peak_mb
from tideline import settings
from tideline.airflow_api import AirflowApi
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.local import surroundings
from tideline.local.orchestrator import AirflowOptions
from tideline.local.postgres import programs
from tideline.local.stack import Stack

RECORDS = 545_884
PARTITIONS = 18
ROUNDS = 4
MANY = 5_000_000
PAGE = settings.PROJECT / "docs" / "performance.md"


def main() -> None:
    """Load, memory, latency; each on a stack of its own in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres runs as another user where this runs as root
        os.environ["TIDELINE_PIPELINES"] = str(folder / "pipelines")
        with Stack(folder / "stack") as stack:
            os.environ.update(stack.environment())
            with Ledger(settings.ledger_url(), actor="bench") as ledger:
                migrate(ledger)
            loads = measure_loads(folder, stack)
            peaks = measure_memory(folder, stack)
        latencies = measure_latency(folder)
    PAGE.write_text(page(loads, peaks, latencies))
    print(PAGE.read_text())


def measure_loads(folder: Path, stack: Stack) -> dict[str, list[float]]:
    """Seconds of each way, round by round: side by side, so that a noisy moment hits all alike."""
    topic = records.create(stack.broker.bootstrap, partitions=PARTITIONS)
    say(f"producing {RECORDS:,} records")
    rivals.fill(stack.broker.bootstrap, topic, RECORDS, PARTITIONS)
    pipeline = rivals.declare(folder / "pipelines" / "loaded", topic)
    spark = session(stack)
    field = rivals.Rivals(settings.ledger_url(), pipeline, spark, programs() / "psql")
    file = folder / "rows.copy"
    ways: dict[str, Callable[[], float]] = {
        "a": field.tideline,
        "b": field.jdbc(),
        "c": field.jdbc(reWriteBatchedInserts="true", batchsize="10000"),
        "d": lambda: field.copy(file),
    }
    field.tideline()
    field.export(file)
    file.chmod(0o644)
    for way in ways.values():
        way()  # warm up: code that is compiled, pages that are there
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS):
        for name, way in ways.items():
            seconds[name].append(way())
            say(f"round {number + 1}, {name}: {seconds[name][-1]:.2f} s")
    spark.stop()
    return seconds


def session(stack: Stack) -> SparkSession:
    """A session as the write task would make it, with the driver memory that all of the ways get."""
    properties = stack.environment()["TIDELINE_SPARK_PROPERTIES"]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--master local[2] --properties-file {properties} --driver-memory 2g pyspark-shell"
    )
    return write_batches.session("bench")


def measure_memory(folder: Path, stack: Stack) -> dict[int, dict[str, float]]:
    """Peaks of one batch of half a million and one of five million records."""
    peaks = {}
    for count in (RECORDS, MANY):
        topic = records.create(stack.broker.bootstrap, partitions=PARTITIONS)
        say(f"producing {count:,} records")
        rivals.fill(stack.broker.bootstrap, topic, count, PARTITIONS)
        pipeline = rivals.declare(folder / "pipelines" / f"memory_{count}", topic, batch_records=count)
        environment = {**surroundings.clean(folder / "scratch"), **stack.environment()}
        peaks[count] = peak_mb(settings.ledger_url(), pipeline, environment)
        say(f"peak memory for {count:,}: {peaks[count]}")
    return peaks


def measure_latency(folder: Path) -> dict[str, list[float]]:
    """Seconds from the trigger to the end of the run, through a real Airflow."""
    airflow = AirflowOptions(dags=settings.PROJECT / "dags", plugins=settings.PROJECT / "plugins")
    with Stack(folder / "airflow", airflow=airflow) as stack:
        os.environ.update(stack.environment())
        with Ledger(settings.ledger_url(), actor="bench") as ledger:
            migrate(ledger)
        topic = records.create(stack.broker.bootstrap, partitions=PARTITIONS)
        rivals.declare(folder / "pipelines" / "latency", topic)
        assert stack.orchestrator is not None
        api = AirflowApi(stack.orchestrator.base_url, stack.orchestrator.username, stack.orchestrator.password)
        api.unpause("latency")
        found: dict[str, list[float]] = {"10,000 records": [], "nothing to do": []}
        for number in range(ROUNDS):
            rivals.fill(stack.broker.bootstrap, topic, 10_000, PARTITIONS)
            for what, seconds in found.items():
                begin = time.monotonic()
                state = api.finished("latency", api.trigger("latency"))
                seconds.append(time.monotonic() - begin)
                assert state == "success", f"{what}: the run ended as {state}"
                say(f"round {number + 1}, {what}: {seconds[-1]:.1f} s")
    return found


def page(loads: dict[str, list[float]], peaks: dict[int, dict[str, float]], latencies: dict[str, list[float]]) -> str:
    """The page, from what was measured; nothing in it is written by hand but the words."""
    best = {name: min(seconds) for name, seconds in loads.items()}
    names = {
        "a": "(a) Tideline's write task: claim to published",
        "b": "(b) Spark batch read + `from_json` + JDBC, defaults",
        "c": "(c) the same with `reWriteBatchedInserts` and `batchsize` 10000",
        "d": "(d) `psql \\\\copy` of the same rows from a file, one stream",
    }
    lines = [
        "# Performance",
        "",
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {machine()}.",
        "Read the figures as ratios: machines are noisy.",
        "",
        f"## {RECORDS:,} records of about 260 bytes, {PARTITIONS} partitions, into one keyed table",
        "",
        f"One warm JVM, `local[2]`, all ways in turn, {ROUNDS} rounds after a warm-up.",
        "Only (a) promises anything: exactly once, counts, rejects, history.",
        "",
        "| way | best, s | median, s | records/s (best) | (a) is faster by |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {names[name]} | {best[name]:.2f} | {statistics.median(seconds):.2f} | {RECORDS / best[name]:,.0f} "
        f"| {best[name] / best['a']:.2f}x best, {median_ratio(seconds, loads['a']):.2f}x median of rounds |"
        for name, seconds in loads.items()
    ]
    lines += [
        "",
        "## Peak memory of one write task",
        "",
        "| records in one batch | JVM, MB | Python, MB | together, MB |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {count:,} | {peak['JVM']:.0f} | {peak['Python']:.0f} | {peak['all']:.0f} |" for count, peak in peaks.items()
    ]
    ratio = peaks[MANY]["all"] / peaks[RECORDS]["all"]
    lines += ["", f"{MANY / RECORDS:.0f} times the records take {ratio:.2f} times the memory.", ""]
    lines += [
        "## From the trigger to the end of the run, through Airflow",
        "",
        "| what | best, s | median, s |",
        "|---|---|---|",
    ]
    lines += [
        f"| {what} | {min(seconds):.1f} | {statistics.median(seconds):.1f} |" for what, seconds in latencies.items()
    ]
    return "\n".join(lines) + "\n"


def median_ratio(seconds: list[float], ours: list[float]) -> float:
    """The median over rounds of how much longer it took than ours in the same round."""
    return statistics.median(one / other for one, other in zip(seconds, ours, strict=True))


def machine() -> str:
    """What it was measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    memory = psutil.virtual_memory().total / 2**30
    return f"{cpu}, {psutil.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}"


def say(text: str) -> None:
    """Progress, for whoever waits."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
