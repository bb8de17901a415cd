"""Peak memory of a whole write task: the JVM, the Python driver and the Python workers together."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import records
from benchmarks import rivals, states
from benchmarks.scene import PARTITIONS, RECORDS, Scene, say, table
from tideline import flow, settings
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline_stack import program_environment

TITLE = "Peak memory of one write task"
MANY = 5_000_000
LARGE_STATES = 1_112 * PARTITIONS
"""About 20,000 keys. A multiple of the partitions, so that the records of a key are in one partition."""
_LARGE = """
class Large(Visits):
    def on_record(self, key, record, state):
        state.value = {"note": f"{record['shown_at']}" + 60_000 * "x", **(state.value or {})}


processor = Large()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A pipeline, and the batches whose memory is compared."""

    declare: Callable[[Scene, Path, str, int], Pipeline]
    counts: tuple[int, int] = (RECORDS, MANY)
    """Records of the small and of the large batch."""
    event: rivals.Spoil = states.event
    partitions: int = PARTITIONS


def measure(scene: Scene) -> list[str]:
    """Return the section's lines: for each kind of pipeline, a small batch and a large one."""
    environment = {**program_environment.clean(scene.folder / "scratch"), **scene.stack.environment()}
    topics: dict[tuple[int, int, rivals.Spoil], str] = {}
    rows = []
    for name, kind in KINDS.items():
        peaks = {}
        for count in kind.counts:
            content = (count, kind.partitions, kind.event)
            topics[content] = topics.get(content) or scene.topic(count, kind.partitions, spoil=kind.event)
            folder = scene.folder / "pipelines" / f"memory_{'_'.join(name.split())}_{count}"
            pipeline = kind.declare(scene, folder, topics[content], count)
            peaks[count] = peak_mb(settings.ledger_url(), pipeline, environment)
            say(f"peak memory of {name} for {count:,}: {peaks[count]}")
        for count, peak in peaks.items():
            used = (f"{peak[part]:.0f}" for part in ("JVM", "Python", "all"))
            rows.append((name, f"{count:,}", *used, f"{peak['all'] / peaks[kind.counts[0]]['all']:.2f}"))
    return [
        "The JVM, the Python driver and the Python workers, sampled twice a second. Kafka's and Postgres' own memory is not in it.",
        f"`sessions` folds visits of {states.KEYS:,} users; `one key` those of a single user, in one partition; `large states` keeps",
        f"60 kB for each of {LARGE_STATES:,} users, which is 1.2 GB. Spark's JVM may take 1 GB for its heap.",
        "",
        *table(
            ("sink", "records in one batch", "JVM, MB", "Python, MB", "together, MB", "times the small batch"), rows
        ),
    ]


def _append(_: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    return rivals.declare(folder, topic, batch_records=count)


def _upsert(_: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    return rivals.declare_upsert(folder, topic, batch_records=count)


def _kafka(scene: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    out = records.create(scene.stack.broker.bootstrap, partitions=PARTITIONS)
    sink = {"kind": "kafka", "topic": out, "key": ["user_id"]}
    return rivals.declare(folder, topic, batch_records=count, sink=sink)


def _delta(scene: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    sink = {"kind": "delta", "path": str(scene.folder / "lakes" / folder.name)}
    return rivals.declare(folder, topic, batch_records=count, sink=sink)


def _sessions(_: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    return states.declare(folder, topic, batch_records=count)


def _large(_: Scene, folder: Path, topic: str, count: int) -> Pipeline:
    return states.declare(folder, topic, batch_records=count, more_columns="note: string", more_code=_LARGE)


def _of_one_user(number: int, value: dict[str, Any]) -> bytes:
    return json.dumps({**value, "user_id": "ada"}).encode()


def _of_few_users(number: int, value: dict[str, Any]) -> bytes:
    return json.dumps({**value, "user_id": f"user-{number % LARGE_STATES}"}).encode()


KINDS: Mapping[str, Kind] = {
    "append": Kind(declare=_append),
    "upsert": Kind(declare=_upsert),
    "kafka": Kind(declare=_kafka),
    "delta": Kind(declare=_delta),
    "sessions": Kind(declare=_sessions),
    "one key": Kind(declare=_sessions, counts=(100_000, 1_000_000), event=_of_one_user, partitions=1),
    "large states": Kind(declare=_large, counts=(5 * LARGE_STATES, 25 * LARGE_STATES), event=_of_few_users),
}


def peak_mb(url: str, pipeline: Pipeline, environment: Mapping[str, str]) -> dict[str, float]:
    """Write all new records as `spark-submit` does; return the peak of each kind of process in MB, and of their sum."""
    with Ledger(url, actor="bench") as ledger:
        run = Run(dag_id=pipeline.name, run_id="bench")
        batches = flow.plan(ledger, Broker(pipeline.source), pipeline, run, NewRecords()).batch_ids
    properties = environment["TIDELINE_SPARK_PROPERTIES"]
    command = [
        str(program_environment.BIN / "spark-submit"), "--master", "local[2]", "--properties-file", properties,
        str(settings.PROJECT / "spark_jobs" / "write_batches.py"), f"--pipeline={pipeline.name}",
        f"--batches={','.join(map(str, batches))}", f"--dag-id={pipeline.name}", "--run-id=bench", "--task-id=write", "--try-number=1",
    ]  # fmt: skip
    process = subprocess.Popen(command, env=dict(environment), stdout=sys.stderr)
    peaks: dict[str, float] = {}
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(process.pid, peaks, done))
    sampler.start()
    code = process.wait()
    done.set()
    sampler.join()
    assert code == 0, f"the write task ended with exit code {code}"
    return peaks


def _sample(pid: int, peaks: dict[str, float], done: threading.Event) -> None:
    """Sample twice a second. USS: pages that the workers share with their parent count once."""
    while not done.wait(0.5):
        now = {"JVM": 0.0, "Python": 0.0}
        try:
            root = psutil.Process(pid)
            for process in [root, *root.children(recursive=True)]:
                kind = "JVM" if process.name() == "java" else "Python"
                now[kind] += process.memory_full_info().uss / 1e6
        except psutil.Error:
            continue
        now["all"] = sum(now.values())
        for kind, used in now.items():
            peaks[kind] = max(peaks.get(kind, 0.0), used)
