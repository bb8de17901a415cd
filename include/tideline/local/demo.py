"""`make demo`: fill a topic, load it with the DAG `impressions`, retry a failed run, load past hours again, and verify the result.

The stack must be up.
"""

import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.sql import SQL
from rich.console import Console
from rich.table import Table

from tideline import settings
from tideline.airflow.api import AirflowApi
from tideline.declaration import pipelines
from tideline.errors import FatalError, TidelineError
from tideline.ledger.connection import Ledger, statement
from tideline.ledger.migrate import migrate
from tideline.local import demo_failures, demo_impressions, run_progress
from tideline.local.supervisor import State, show_step

DAG = "impressions"
RECORDS = 200_000


def main() -> int:
    """Run the demo; return 0 only when every record is accounted for."""
    try:
        return demo()
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def demo() -> int:
    """Produce and load records, retry a failed range, run a backfill, and compare what was sent with what was loaded.

    Returns:
        0 when every record is accounted for, else 1.

    Raises:
        FatalError: The stack is not up, or a step failed that must succeed.
    """
    state = State.read()
    if state is None or not state.ready:
        raise FatalError("the local stack is not up", next_step="run `make up`, or `make demo`, which starts it")
    environment = state.environment
    os.environ.update(environment)
    with Ledger(settings.ledger_url(), actor="demo") as ledger, _airflow(environment) as airflow:
        with show_step("Ledger"):
            migrate(ledger)
            _create_offers(ledger)
        since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=demo_failures.HOURS)
        with show_step(f"{RECORDS:,} impressions into Kafka"):
            sent = demo_impressions.produce(os.environ["TIDELINE_KAFKA"], RECORDS, seed=time.time_ns(), since=since)
        airflow.unpause(DAG)
        run_id = airflow.trigger(DAG)
        run_progress.succeed(airflow, DAG, run_id)
        with ledger.transaction():
            Console().print(_table(_rows(ledger, "list_counts", pipeline=DAG, run_id=run_id)))
        sent.add(demo_failures.fail_and_retry(ledger, airflow, DAG, environment))
        demo_failures.load_hours_again(ledger, airflow, DAG)
        return _show(ledger, sent, environment)


def _airflow(environment: Mapping[str, str]) -> AirflowApi:
    return AirflowApi(
        environment["TIDELINE_AIRFLOW_URL"],
        environment["TIDELINE_AIRFLOW_USERNAME"],
        environment["TIDELINE_AIRFLOW_PASSWORD"],
    )


def _create_offers(ledger: Ledger) -> None:
    text = (pipelines.load_named(DAG).folder / "offers.sql").read_text(encoding="utf-8")
    with ledger.transaction():
        ledger.run_sql(SQL(text.replace("%", "%%")), {})


def _show(ledger: Ledger, sent: demo_impressions.Sent, environment: Mapping[str, str]) -> int:
    with ledger.transaction():
        loaded = _rows(ledger, "list_loaded", topic=demo_impressions.TOPIC)
        n_rows = _rows(ledger, "count_output")[0]["n_rows"]
    console = Console()
    console.line()
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
    console.print(f"  Airflow: {url}/dags/{DAG}", soft_wrap=True)
    console.print(
        f"  Log in as {user} with password {environment['TIDELINE_AIRFLOW_PASSWORD']}. `make down` stops the stack; its data stays."
    )
    console.print("  Try: .local/env/bin/tideline streams impressions")
    console.print("       .local/env/bin/tideline coverage impressions")
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
