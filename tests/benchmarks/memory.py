"""Peak memory of a whole write task: the JVM, the Python driver and the Python workers together."""

import subprocess
import sys
import threading
from collections.abc import Mapping

import psutil

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, Scene, say, table
from tideline import flow, settings
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run
from tideline.local import program_environment

TITLE = "Peak memory of one write task"
MANY = 5_000_000


def measure(scene: Scene) -> list[str]:
    """Return the section's lines: one batch of half a million and one of five million records."""
    peaks = {}
    for count in (RECORDS, MANY):
        topic = scene.topic(count, PARTITIONS)
        pipeline = rivals.declare(scene.folder / "pipelines" / f"memory_{count}", topic, batch_records=count)
        environment = {**program_environment.clean(scene.folder / "scratch"), **scene.stack.environment()}
        peaks[count] = peak_mb(settings.ledger_url(), pipeline, environment)
        say(f"peak memory for {count:,}: {peaks[count]}")
    rows = [
        (f"{count:,}", *(f"{peak[kind]:.0f}" for kind in ("JVM", "Python", "all"))) for count, peak in peaks.items()
    ]
    ratio = peaks[MANY]["all"] / peaks[RECORDS]["all"]
    return [
        *table(("records in one batch", "JVM, MB", "Python, MB", "together, MB"), rows),
        "",
        f"{MANY / RECORDS:.0f} times the records take {ratio:.2f} times the memory.",
    ]


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
