"""What can happen in the demo: a run that fails and is retried, a backfill that loads past hours again, and a replay of a batch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from tideline.errors import FatalError
from tideline_demo import impressions
from tideline_demo.loads import DAG, HOURS
from tideline_demo.stage import TIDELINE, DemoStage
from tideline_stack import run_progress
from tideline_stack.supervisor import show_step

MORE = 2_000


def fail_and_retry(stage: DemoStage, sent: impressions.SentImpressions) -> int:
    """Make a run fail because a table is missing, restore the table, and retry the failed batch.

    Args:
        stage: The running stack.
        sent: The records that were sent. Those that are sent for this run are added.

    Returns:
        The number of the batch.

    Raises:
        FatalError: The run did not fail, or its batch did not load the second time.
    """
    print(f"\n3. A failure: the table ads.offers is gone while {MORE:,} more impressions arrive.")
    with _without_offers(stage):
        sent.add(impressions.produce(stage.bootstrap, MORE, seed=MORE))
        run_id = stage.airflow.trigger(DAG)
        if run_progress.watch(stage.airflow, DAG, run_id) != "failed":
            raise FatalError(f"run {run_id} was expected to fail", next_step="look at it in Airflow")
    [failed] = stage.look("list_failed", pipeline=DAG, run_id=run_id)
    number = int(failed["batch_id"])
    print(f"  batch {number}, {failed['n_offsets']:,} offsets, is {failed['state']}: {failed['problem']}")
    stage.follow(DAG, stage.tideline("retry", str(number), "--reason", "the table of offers is back"))
    stage.look_at(f"{TIDELINE} batch {number}   (both attempts, and who decided what)")
    return number


@contextmanager
def _without_offers(stage: DemoStage) -> Iterator[None]:
    """Rename the dimension table while the context is open."""
    stage.execute("hide_offers")
    try:
        yield
    finally:
        stage.execute("show_offers")


def load_hours_again(stage: DemoStage) -> None:
    """Run an Airflow backfill with `replace` over past hours: one run for each hour replaces the rows of that hour.

    Raises:
        FatalError: One of the runs failed.
    """
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = end - timedelta(hours=HOURS)
    print(
        f"\n4. A backfill in Airflow of {HOURS} past hours, {start:%H:%M} to {end:%H:%M} UTC, which replaces their rows."
    )
    with show_step(f"{HOURS} runs"):
        last = end - timedelta(hours=1)
        why = "the demo loads these hours again"
        runs = stage.airflow.backfill(DAG, start, last, reprocess="completed", replace=True, reason=why)
    if failed := [run_id for run_id, state in runs.items() if state != "success"]:
        raise FatalError(f"runs {', '.join(failed)} failed", next_step="look at them in Airflow")
    hours = sorted((stage.airflow.run(DAG, run_id)["data_interval_start"], run_id) for run_id in runs)
    loaded = {hour[11:16]: stage.look("list_replayed", pipeline=DAG, run_id=run_id) for hour, run_id in hours}
    Console().print(_hours(loaded))
    stage.look_at(f"{stage.environment['TIDELINE_AIRFLOW_URL']}/dags/{DAG}/backfills")


def load_batch_again(stage: DemoStage, number: int) -> None:
    """Replay a batch.

    Raises:
        FatalError: The run failed, or the number of rows has changed.
    """
    print(f"\n5. A replay: batch {number} is loaded again, and its rows are replaced in one transaction.")
    [before] = stage.look("count_output")
    reason = "the demo loads it again"
    stage.follow(DAG, stage.tideline("replay", DAG, "--batch", str(number), "--reason", reason))
    [after] = stage.look("count_output")
    print(f"  ads.impressions held {before['n_rows']:,} rows, and holds {after['n_rows']:,}.")
    if before != after:
        raise FatalError("a replay has changed the number of rows", next_step=f"{TIDELINE} batch {number}")
    stage.look_at(f"{stage.page('pipelines', DAG)}   (what is loaded, the batches, and all decisions)")


def _hours(loaded: Mapping[str, list[Any]]) -> Table:
    table = Table(title="What the backfill replaced", title_justify="left")
    for heading in ("hour", "batch", "kind", "offsets", "written", "rejected"):
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    for hour, rows in loaded.items():
        for row in rows:
            figures = (f"{row[name]:,}" for name in ("n_offsets", "n_written", "n_rejected"))
            table.add_row(hour, str(row["batch_id"]), row["kind"], *figures)
    return table
