"""`make demo`: fill a topic, let the `impressions` DAG load it, and show that everything adds up. Needs the stack to be up."""

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from psycopg2.sql import SQL
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tideline import pipelines, settings
from tideline.airflow_api import AirflowApi
from tideline.errors import FatalError, TidelineError
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.migrate import migrate
from tideline.local import impressions
from tideline.local.supervisor import State, show_step

DAG = "impressions"
RECORDS = 200_000
_MARKS = {
    "success": "[green]done[/]",
    "failed": "[red]failed[/]",
    "running": "[yellow]running[/]",
    "skipped": "skipped",
}


def main() -> int:
    """Run the demo; the exit code is 0 only when every record is accounted for."""
    try:
        return demo()
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def demo() -> int:
    """Produce, load, compare and show.

    Raises:
        FatalError: The stack is not up.
    """
    state = State.read()
    if state is None or not state.ready:
        raise FatalError("the local stack is not up", next_step="run `make up`, or `make demo`, which does")
    os.environ.update(state.environment)
    with Ledger(settings.ledger_url(), actor="demo") as ledger:
        with show_step("Ledger"):
            migrate(ledger)
            _create_offers(ledger)
        with show_step(f"{RECORDS:,} impressions into Kafka"):
            sent = impressions.produce(os.environ["TIDELINE_KAFKA"], RECORDS, seed=time.time_ns())
        run_id = _load(state.environment)
        return _show(ledger, run_id, sent, state.environment)


def _create_offers(ledger: Ledger) -> None:
    text = (pipelines.load_named(DAG).folder / "offers.sql").read_text(encoding="utf-8")
    with ledger.transaction():
        ledger.run_sql(SQL(text.replace("%", "%%")), {})


def _load(environment: Mapping[str, str]) -> str:
    """Trigger the DAG through Airflow's API and show its tasks until it ends; the run's id."""
    with AirflowApi(
        environment["TIDELINE_AIRFLOW_URL"],
        environment["TIDELINE_AIRFLOW_USERNAME"],
        environment["TIDELINE_AIRFLOW_PASSWORD"],
    ) as airflow:
        airflow.unpause(DAG)
        run_id = airflow.trigger(DAG)
        state, tasks = _watch(airflow, run_id)
        if state != "success":
            failed = next((name for name, task in tasks.items() if task["state"] == "failed"), "plan")
            log = list(airflow.log(DAG, run_id, failed, tasks[failed]["try_number"]))
            raise FatalError(
                f"task {failed} of run {run_id} failed; the end of its log:\n    " + "\n    ".join(log[-15:]),
                next_step=f"read the whole log at {environment['TIDELINE_AIRFLOW_URL']}",
            )
    return run_id


def _watch(airflow: AirflowApi, run_id: str) -> tuple[str, Mapping[str, Mapping[str, Any]]]:
    """Show the tasks of a run until it ends; its state, and the tasks."""
    begin = time.monotonic()
    console = Console()
    with Live(console=console, refresh_per_second=4) as live:
        while (state := airflow.run(DAG, run_id)["state"]) not in {"success", "failed"}:
            live.update(_progress(airflow.tasks(DAG, run_id), time.monotonic() - begin))
            time.sleep(0.5)
        tasks = airflow.tasks(DAG, run_id)
        live.update(_progress(tasks, time.monotonic() - begin))
    if not console.is_terminal:
        console.line()  # a live display ends its line only where somebody can look at it
    return state, tasks


def _progress(tasks: Mapping[str, Mapping[str, Any]], seconds: float) -> str:
    states = [
        f"{name} {_MARKS.get(tasks[name]['state'], tasks[name]['state'] or 'waits')}"
        for name in ("plan", "write", "advance")
        if name in tasks
    ]
    return f"  DAG run   {'  >  '.join(states)}   {seconds:.0f} s"


def _show(ledger: Ledger, run_id: str, sent: impressions.Sent, environment: Mapping[str, str]) -> int:
    with ledger.transaction():
        counts = _rows(ledger, "list_counts", pipeline=DAG, run_id=run_id)
        loaded = _rows(ledger, "list_loaded", topic=impressions.TOPIC)
        n_rows = _rows(ledger, "count_output")[0]["n_rows"]
    console = Console()
    console.print(_table(counts))
    output = {(row["kafka_partition"], row["kafka_offset"]) for row in loaded if row["is_output"]}
    rejects = {(row["kafka_partition"], row["kafka_offset"]) for row in loaded if not row["is_output"]}
    problems = sent.compare(output, rejects)
    console.print(f"  ads.impressions holds {n_rows:,} rows; tideline.reject holds {len(rejects):,}.")
    for problem in problems:
        console.print(f"  [red]{problem}[/]")
    if not problems:
        console.print(
            "  [green]Every record produced is in the output or in the rejects, exactly once[/] (robots are filtered, by transform.py)."
        )
    url, user = environment["TIDELINE_AIRFLOW_URL"], environment["TIDELINE_AIRFLOW_USERNAME"]
    console.print(f"  Airflow: {url}/dags/{DAG}/runs/{run_id}", soft_wrap=True)
    console.print(
        f"  Log in as {user} with password {environment['TIDELINE_AIRFLOW_PASSWORD']}. `make down` stops the stack; its data stays."
    )
    return 1 if problems else 0


def _rows(ledger: Ledger, name: str, **parameters: Any) -> list[Any]:
    return ledger.rows_of(SQL(statement("tideline.local", f"sql/{name}.sql")), parameters)


def _table(counts: list[Any]) -> Table:
    table = Table(title="What the run loaded", title_justify="left")
    for heading in ("partition", "offsets", "read", "written", "rejected", "filtered"):
        table.add_column(heading, justify="right")
    for row in counts:
        figures = (row["n_read"], row["n_written"], row["n_rejected"], row["n_filtered"])
        table.add_row(
            str(row["partition"]),
            f"[{row['start_offset']}, {row['end_offset']})".replace("[", "\\["),
            *(f"{n:,}" for n in figures),
        )
    totals = (sum(row[name] for row in counts) for name in ("n_read", "n_written", "n_rejected", "n_filtered"))
    table.add_section()
    table.add_row("all", "", *(f"{n:,}" for n in totals))
    return table


if __name__ == "__main__":
    sys.exit(main())
