"""DAGs that are run once for all tests that check their results or continue from there: `impressions` and `announced`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil

from system import Place, System
from tideline.settings import PROJECT
from tideline_demo import impressions

NAME = "impressions"
COUNT = 20_000
SINCE = timedelta(hours=3)
"""They are as old as this, or newer. The DAG `ads_baseline` counts up to a full hour, which may have passed an hour and a half ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The records that were sent, and observations of the run while it wrote."""

    sent: impressions.SentImpressions
    raw: dict[Place, bytes | None]
    """Every record of the topic, as a plain consumer reads it."""
    run_id: str
    driver_pid: int
    command_lines: dict[int, str]
    """Command lines of every process of the machine, while the batch was written."""


def load_impressions(system: System) -> Loaded:
    """Create the dimension, fill the topic and run the DAG."""
    system.prepare((PROJECT / "include" / "pipelines" / NAME / "offers.sql").read_text())
    sent = impressions.produce(system.bootstrap, COUNT, seed=7, malformed_every=100, since=datetime.now(UTC) - SINCE)
    run_id = system.start(NAME)
    driver_pid = system.wait(lambda: _writing(system), "the batch to be written")
    command_lines = _command_lines()
    system.succeed(NAME, run_id)
    return Loaded(
        sent=sent,
        raw=system.consumed(impressions.TOPIC, partitions=impressions.PARTITIONS),
        run_id=run_id,
        driver_pid=driver_pid,
        command_lines=command_lines,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """The records that were sent, and the run that has loaded them."""

    sent: dict[Place, bytes | None]
    run_id: str


def publish_announced(system: System) -> Announced:
    """Switch on the DAG that waits, fill the topic and run the pipeline."""
    system.airflow.unpause("downstream")
    sent = system.fill("announced", 100, partitions=2)
    return Announced(sent=sent, run_id=system.run("announced"))


def _writing(system: System) -> int | None:
    """Return the pid of the Spark driver that writes now."""
    rows = system.rows(
        "SELECT pid FROM tideline.attempt JOIN tideline.batch USING (attempt) WHERE pipeline = %s AND state = 'writing'",
        NAME,
    )
    return rows[0][0] if rows else None


def _command_lines() -> dict[int, str]:
    return {process.pid: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
