"""Failures in the first part of the demo: a run that fails and is retried, and a backfill that loads three past hours again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from tideline.errors import FatalError
from tideline.local import demo_impressions, run_progress
from tideline.local.demo_stage import Stage
from tideline.local.supervisor import show_step

MORE = 2_000
HOURS = 3


def fail_and_retry(stage: Stage, dag_id: str) -> demo_impressions.Sent:
    """Make a run fail because a table is missing, restore the table, and retry the failed batch.

    Returns:
        The records that were sent for this run.

    Raises:
        FatalError: The run did not fail, or its batch did not load the second time.
    """
    print(f"\n  A failure: the table ads.offers is gone while {MORE:,} more impressions arrive.")
    with _without_offers(stage):
        sent = demo_impressions.produce(stage.bootstrap, MORE, seed=MORE)
        run_id = stage.airflow.trigger(dag_id)
        if run_progress.watch(stage.airflow, dag_id, run_id) != "failed":
            raise FatalError(f"run {run_id} was expected to fail", next_step="look at it in Airflow")
    [failed] = stage.look("list_failed", pipeline=dag_id, run_id=run_id)
    print(f"  batch {failed['batch_id']}, {failed['n_offsets']:,} offsets, is {failed['state']}: {failed['problem']}")
    retried = stage.tideline("retry", str(failed["batch_id"]), "--reason", "the table of offers is back")
    stage.follow(dag_id, retried)
    return sent


@contextmanager
def _without_offers(stage: Stage) -> Iterator[None]:
    """Rename the dimension table while the context is open."""
    stage.execute("hide_offers")
    try:
        yield
    finally:
        stage.execute("show_offers")


def load_hours_again(stage: Stage, dag_id: str) -> None:
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
        runs = stage.airflow.backfill(dag_id, start, last, reprocess="completed", replace=True, reason=why)
    if failed := [run_id for run_id, state in runs.items() if state != "success"]:
        raise FatalError(f"runs {', '.join(failed)} failed", next_step="look at them in Airflow")
    hours = sorted((stage.airflow.run(dag_id, run_id)["data_interval_start"], run_id) for run_id in runs)
    loaded = {hour[11:16]: stage.look("list_replayed", pipeline=dag_id, run_id=run_id) for hour, run_id in hours}
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
