"""The second half of the demo: a run that fails and is retried, and a backfill that loads three past hours again."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from psycopg2.sql import SQL
from rich.console import Console
from rich.table import Table

from tideline.airflow.api import AirflowApi
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger, statement
from tideline.local import demo_impressions, program_environment, run_progress
from tideline.local.supervisor import show_step

MORE = 2_000
HOURS = 3


def fail_and_retry(
    ledger: Ledger, airflow: AirflowApi, dag_id: str, environment: Mapping[str, str]
) -> demo_impressions.Sent:
    """Make a run fail because a table is missing, restore the table, and retry the failed batch.

    Returns:
        The records that were sent for this run.

    Raises:
        FatalError: The run did not fail, or its batch did not load the second time.
    """
    print(f"\n  A failure: the table ads.offers is gone while {MORE:,} more impressions arrive.")
    with _without_offers(ledger):
        sent = demo_impressions.produce(environment["TIDELINE_KAFKA"], MORE, seed=MORE)
        run_id = airflow.trigger(dag_id)
        if run_progress.watch(airflow, dag_id, run_id) != "failed":
            raise FatalError(f"run {run_id} was expected to fail", next_step="look at it in Airflow")
    with ledger.transaction():
        [failed] = _rows(ledger, "list_failed", pipeline=dag_id, run_id=run_id)
    print(f"  batch {failed['batch_id']}, {failed['n_offsets']:,} offsets, is {failed['state']}: {failed['problem']}")
    said = _tideline(environment, "retry", str(failed["batch_id"]), "--reason", "the table of offers is back")
    url = said["runs"][0]["url"]
    run_progress.succeed(airflow, dag_id, unquote(url.rpartition("/")[2]))
    return sent


@contextmanager
def _without_offers(ledger: Ledger) -> Iterator[None]:
    """Rename the dimension table while the context is open."""
    _run(ledger, "hide_offers")
    try:
        yield
    finally:
        _run(ledger, "show_offers")


def load_hours_again(ledger: Ledger, airflow: AirflowApi, dag_id: str) -> None:
    """Run an Airflow backfill with `replace` over past hours: one run for each hour replaces the rows of that hour.

    Raises:
        FatalError: One of the runs failed.
    """
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=HOURS)
    print(f"\n  An Airflow backfill of {HOURS} past hours, {start:%H:%M} to {end:%H:%M} UTC, that says `replace`.")
    with show_step(f"{HOURS} runs"):
        last = end - timedelta(hours=1)
        why = "the demo loads these hours again"
        runs = airflow.backfill(dag_id, start, last, reprocess="completed", replace=True, reason=why)
    if failed := [run_id for run_id, state in runs.items() if state != "success"]:
        raise FatalError(f"runs {', '.join(failed)} failed", next_step="look at them in Airflow")
    hours = {airflow.run(dag_id, run_id)["data_interval_start"][11:16]: run_id for run_id in runs}
    with ledger.transaction():
        loaded = {hour: _rows(ledger, "list_replayed", pipeline=dag_id, run_id=hours[hour]) for hour in sorted(hours)}
    Console().print(_hours(loaded))


def _hours(loaded: Mapping[str, list[Any]]) -> Table:
    table = Table(title="What the backfill replaced", title_justify="left")
    for heading in ("hour", "batch", "kind", "offsets", "written", "rejected"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for hour, rows in loaded.items():
        for row in rows:
            figures = (f"{row[name]:,}" for name in ("n_offsets", "n_written", "n_rejected"))
            table.add_row(hour, str(row["batch_id"]), row["kind"], *figures)
    return table


def _tideline(environment: Mapping[str, str], *arguments: str) -> Any:
    """Print a `tideline` command as an operator would type it, run it with `--json` and return the parsed output.

    Raises:
        FatalError: It failed.
    """
    print("  $ tideline " + " ".join(f"'{word}'" if " " in word else word for word in arguments))
    done = subprocess.run(
        [str(program_environment.BIN / "tideline"), *arguments, "--json"],
        env=dict(environment),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise FatalError(f"the command failed: {done.stderr.strip()}", next_step="run it by hand")
    return json.loads(done.stdout)


def _run(ledger: Ledger, name: str) -> None:
    with ledger.transaction():
        ledger.run_sql(SQL(statement("tideline.local", f"sql/{name}.sql")), {})


def _rows(ledger: Ledger, name: str, **parameters: Any) -> list[Any]:
    return ledger.rows_of(SQL(statement("tideline.local", f"sql/{name}.sql")), parameters)
