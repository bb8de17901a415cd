"""Acts of people other than triggering runs: commands, backfills in Airflow, decisions that a log proposes; and the history of these."""

import re
import shlex
import subprocess
from datetime import datetime
from typing import Any

from secret_scan import Scan
from system import System
from tideline_stack.program_environment import BIN

WHO = "ada"
"""The actor at the command line."""

_DONE = {"success", "failed"}
_DECISION = re.compile(r"tideline (?:abandon|accept-loss|adopt-topic|skip) [^;\n]*?--reason \.\.\.")


def command(system: System, program: str, *arguments: str) -> str:
    """Run `tideline` or `airflow` in a shell of the stack; return its output."""
    done = subprocess.run(
        [str(BIN / program), *arguments],
        env={**system.environment, "TIDELINE_ACTOR": WHO},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert not Scan().finds((done.stdout + done.stderr).encode()), f"{program} {arguments} shows a secret"
    return done.stdout


def proposed(log: str) -> set[str]:
    """Return the decisions that a task's log proposes, each as a command up to the place of the reason."""
    return set(_DECISION.findall(log))


def decide(system: System, proposal: str, reason: str) -> str:
    """Run a command that a log proposes, with a reason in place of its dots."""
    program, *arguments = shlex.split(proposal.removesuffix("..."))
    return command(system, program, *arguments, reason)


def decisions(system: System, name: str) -> list[tuple[str, str]]:
    """Return people's acts on a pipeline and their reasons from its history, in order."""
    return system.rows(
        "SELECT action, detail->>'reason' FROM tideline.event WHERE pipeline = %s AND actor = %s ORDER BY event_id",
        name,
        WHO,
    )


def holes(system: System, name: str) -> list[tuple[Any, ...]]:
    """Return the holes of a pipeline: partition, start, end, kind, reason, who."""
    return system.rows(
        "SELECT partition, lower(offsets), upper(offsets), hole::text, reason, decided_by "
        "FROM tideline.coverage JOIN tideline.stream USING (stream_id) "
        "WHERE pipeline = %s AND hole IS NOT NULL ORDER BY partition, offsets",
        name,
    )


def backfill(
    system: System, name: str, first: datetime, last: datetime, *, backwards: bool = False, reprocess: str = "none", **conf: Any
) -> None:  # fmt: skip
    """Start an Airflow backfill of the intervals that begin at `first` to `last`, once an earlier one of the DAG has ended."""
    await_backfills(system, name)
    system.airflow.call(
        "POST",
        "backfills",
        dag_id=name,
        from_date=first.isoformat(),
        to_date=last.isoformat(),
        run_backwards=backwards,
        reprocess_behavior=reprocess,
        dag_run_conf=conf,
    )


def await_backfills(system: System, name: str) -> None:
    """Wait for the end of a DAG's backfill. Airflow has one backfill of a DAG at a time, and checks only every 30 seconds whether it has ended."""
    system.wait(
        lambda: all(found["completed_at"] for found in system.airflow.call("GET", f"backfills?dag_id={name}")["backfills"]),
        f"the backfills of {name} to end",
        seconds=300,
    )  # fmt: skip


def hours(system: System, name: str) -> dict[datetime, tuple[str, str]]:
    """Return id and state of a DAG's runs, by the beginning of their interval."""
    found = system.airflow.call("GET", f"dags/{name}/dagRuns?limit=100")["dag_runs"]
    return {
        datetime.fromisoformat(run["logical_date"]): (run["dag_run_id"], run["state"])
        for run in found
        if run["logical_date"]
    }


def are_over(system: System, name: str, beginnings: list[datetime]) -> bool:
    """Return whether the runs of these intervals have ended."""
    found = hours(system, name)
    return all(begin in found and found[begin][1] in _DONE for begin in beginnings)
