"""Check what must hold at rest in addition to the checker's laws, and measure the recovery times."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import psutil

from faults.checker.facts import Violation
from faults.jobs.job_verdict import doctors, verdict
from faults.jobs.sent_letters import differences
from faults.stack import operators
from faults.stack.kills import Death
from faults.stack.stack_scene import REPLAY, Scene
from system import System
from tideline import flow
from tideline.declaration import pipelines
from tideline.ledger.connection import Ledger

_FINISHED = ["advanced", "superseded"]


def broken_laws(scene: Scene, name: str) -> list[Violation]:
    """Return the violations that the checker finds in a pipeline at rest."""
    system, output = scene.system, scene.outputs[name]
    broken, _ = verdict(system.url, system.bootstrap, output, asset_events=_asset_events(system, name))
    return broken


def outside_differences(scene: Scene, name: str) -> list[str]:
    """Return what differs between the ledger and the receipts of its outside sink, and between rejects and letters.

    Upkeep comes before: it sends letters that the runs have left.
    """
    system, output = scene.system, scene.outputs[name]
    declared = pipelines.load(system.folder / "pipelines" / name)
    with Ledger(system.url, actor="upkeep") as ledger:
        flow.upkeep(ledger, declared)
    letters = differences(output, system.url, system.bootstrap) if output.has_letters else []
    return [*doctors(system.url, declared), *letters]


def _asset_events(system: System, name: str) -> list[tuple[int, UUID]]:
    """Return the batch and attempt of each asset event that Airflow has of a pipeline."""
    assets = system.airflow.call("GET", f"assets?name_pattern={name}&limit=100")["assets"]
    [asset_id] = [asset["id"] for asset in assets if asset["name"] == name]
    path = f"assets/events?asset_id={asset_id}&order_by=timestamp&limit=100"
    events: list[dict[str, Any]] = []
    while page := system.airflow.call("GET", f"{path}&offset={len(events)}")["asset_events"]:
        events += page
    return [(event["extra"]["batch"], UUID(event["extra"]["attempt"])) for event in events]


def premature(scene: Scene) -> list[tuple[str, str, int, str]]:
    """Return runs that Airflow marks as success although they have unfinished batches, with these batches."""
    succeeded = {
        (dag_id, run["dag_run_id"])
        for dag_id in (*scene.pipelines, REPLAY)
        for run in operators.runs(scene, dag_id)
        if run["state"] == "success"
    }
    rows = scene.system.rows(
        "SELECT run_batch.dag_id, run_batch.run_id, batch_id, state::text "
        "FROM tideline.run_batch JOIN tideline.batch USING (batch_id) "
        "WHERE batch.pipeline = ANY (%s) AND state::text <> ALL (%s)",
        list(scene.pipelines),
        _FINISHED,
    )
    return [row for row in rows if row[:2] in succeeded]


def drivers(system: System) -> list[psutil.Process]:
    """Return the living processes of this stack's Spark drivers."""
    found = []
    for process in psutil.process_iter():
        try:
            if "write_batches.py" in " ".join(process.cmdline()):
                pipelines = process.environ().get("TIDELINE_PIPELINES", "")
                found += [process] if pipelines.startswith(str(system.folder)) else []
        except psutil.Error:  # ended, or of another user
            continue
    return found


def recovery(scene: Scene, death: Death, restarts: Iterable[tuple[str, float]]) -> float | None:
    """Return the seconds from the end of a fault to the next published batch; None if there was none."""
    over = next((at for name, at in restarts if name == death.victim and at >= death.at), death.at)
    [(seconds,)] = scene.system.rows(
        "SELECT extract(epoch FROM min(at)) - %s FROM tideline.event "
        "WHERE pipeline = ANY (%s) AND action = 'publish' AND at >= to_timestamp(%s)",
        over,
        list(scene.pipelines),
        over,
    )
    return None if seconds is None else round(float(seconds), 1)
