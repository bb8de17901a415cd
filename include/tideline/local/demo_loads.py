"""The first part of the demo: load impressions, retry a failed run, load past hours again, and compare the result."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.sql import SQL
from rich.console import Console
from rich.table import Table

from tideline.declaration import pipelines
from tideline.local import demo_failures, demo_impressions
from tideline.local.demo_stage import Stage
from tideline.local.supervisor import show_step

DAG = "impressions"
RECORDS = 200_000
SHOWN = 3
"""How many partitions the table lists, so that the output of the demo stays short."""


def play(stage: Stage) -> list[str]:
    """Produce and load records, retry a failed range, run a backfill, and compare what was sent with what was loaded.

    Returns:
        One line for each difference.

    Raises:
        FatalError: A step failed that must succeed.
    """
    _create_offers(stage)
    since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=demo_failures.HOURS)
    with show_step(f"{RECORDS:,} impressions into Kafka"):
        sent = demo_impressions.produce(stage.bootstrap, RECORDS, seed=time.time_ns(), since=since)
    run_id = stage.load(DAG)
    Console().print(_table(stage.look("list_counts", pipeline=DAG, run_id=run_id)))
    sent.add(demo_failures.fail_and_retry(stage, DAG))
    demo_failures.load_hours_again(stage, DAG)
    return _compare(stage, sent)


def _create_offers(stage: Stage) -> None:
    text = (pipelines.load_named(DAG).folder / "offers.sql").read_text(encoding="utf-8")
    with stage.ledger.transaction():
        stage.ledger.run_sql(SQL(text.replace("%", "%%")), {})


def _compare(stage: Stage, sent: demo_impressions.Sent) -> list[str]:
    loaded = stage.look("list_loaded", topic=demo_impressions.TOPIC)
    n_rows = stage.look("count_output")[0]["n_rows"]
    output = {(row["kafka_partition"], row["kafka_offset"]) for row in loaded if row["is_output"]}
    rejects = {(row["kafka_partition"], row["kafka_offset"]) for row in loaded if not row["is_output"]}
    print(
        f"\n  ads.impressions holds {n_rows:,} rows; tideline.reject holds {len(rejects):,}. Robots are filtered, by transform.py."
    )
    return [f"ads.impressions: {problem}" for problem in sent.compare(output, rejects)]


def _table(counts: list[Any]) -> Table:
    table = Table(title="What the run loaded", title_justify="left")
    for heading in ("partition", "offsets", "read", "written", "rejected", "filtered"):
        table.add_column(heading, justify="right")
    for row in counts[:SHOWN]:
        figures = (row["n_read"], row["n_written"], row["n_rejected"], row["n_filtered"])
        table.add_row(
            str(row["partition"]),
            f"[{row['start_offset']}, {row['end_offset']})".replace("[", "\\["),
            *(f"{n:,}" for n in figures),
        )
    if len(counts) > SHOWN:
        table.add_row("...", f"{len(counts) - SHOWN} more")
    totals = (sum(row[name] for row in counts) for name in ("n_read", "n_written", "n_rejected", "n_filtered"))
    table.add_section()
    table.add_row("all", "", *(f"{n:,}" for n in totals))
    return table
