"""Shows a DAG run in the demo: the states of its tasks while they run, and the end of the log of a task that failed."""

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live

from tideline.errors import FatalError
from tideline_stack.airflow_user import AirflowUser

_MARKS = {
    "success": "[green]done[/]",
    "failed": "[red]failed[/]",
    "running": "[yellow]running[/]",
    "skipped": "skipped",
}
_ENDS = {"success", "failed"}
_LOG_LINES = 15


def watch(airflow: AirflowUser, dag_id: str, run_id: str) -> str:
    """Show the tasks of a run until it ends; return its final state."""
    begin = time.monotonic()
    console = Console()
    with Live(console=console, refresh_per_second=4) as live:
        while (state := airflow.run(dag_id, run_id)["state"]) not in _ENDS:
            live.update(_progress(airflow.tasks(dag_id, run_id), time.monotonic() - begin))
            time.sleep(0.5)
        live.update(_progress(airflow.tasks(dag_id, run_id), time.monotonic() - begin))
    if not console.is_terminal:
        console.line()  # rich ends the last line of a live display only on a terminal
    return str(state)


def succeed(airflow: AirflowUser, dag_id: str, run_id: str) -> None:
    """Show a run until it ends, and require that it succeeds.

    Raises:
        FatalError: The run failed. The message holds the end of the log of the failed task.
    """
    if watch(airflow, dag_id, run_id) == "success":
        return
    tasks = airflow.tasks(dag_id, run_id)
    failed = next((name for name, task in tasks.items() if task["state"] == "failed"), next(iter(tasks)))
    log = list(airflow.log(dag_id, run_id, failed, tasks[failed]["try_number"]))
    raise FatalError(
        f"task {failed} of run {run_id} failed; the end of its log:\n    " + "\n    ".join(log[-_LOG_LINES:]),
        next_step="read the whole log in Airflow",
    )


def _progress(tasks: Mapping[str, Mapping[str, Any]], seconds: float) -> str:
    shown = [name for name in ("plan", "write", "advance") if name in tasks] or sorted(tasks)
    states = [f"{name} {_MARKS.get(tasks[name]['state'], tasks[name]['state'] or 'waits')}" for name in shown]
    return f"  DAG run   {'  >  '.join(states)}   {seconds:.0f} s"
