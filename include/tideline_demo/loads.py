"""Impressions for the demo and the tour: send them, load them with the pipeline `impressions`, and account for each."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.sql import SQL
from rich.console import Console
from rich.table import Table

from tideline.declaration import pipelines
from tideline.kafka.broker import Broker
from tideline_demo import impressions
from tideline_demo.stage import TIDELINE, DemoStage
from tideline_stack.supervisor import show_step

DAG = "impressions"
RECORDS = 100_000
HOURS = 2
"""Over so many past hours, and the begun one, the records are spread."""
SHOWN = 3
"""How many partitions the table lists, so that the output of the demo stays short."""


def send(stage: DemoStage) -> impressions.SentImpressions:
    """Send impressions of the past hours. Return what the broker has acknowledged."""
    print("\n1. Records: ad impressions, some of them malformed. The table ads.offers says whose ad it was.")
    _prepare(stage)
    stage.switch_on(DAG)
    sent = _send(stage)
    stage.look_at(f"{stage.environment['TIDELINE_AIRFLOW_URL']}/dags/{DAG}   (the DAG and its runs)")
    return sent


def load(stage: DemoStage) -> None:
    """Load what was sent, in one run, and show what the run did by partition."""
    print(
        f"\n2. A run of the DAG {DAG} loads them into the table ads.impressions: plan reserves offsets, write is a Spark job."
    )
    run_id = stage.load(DAG)
    Console().print(_table(stage.look("list_counts", pipeline=DAG, run_id=run_id)))
    number = stage.look("list_batches_of_run", pipeline=DAG, run_id=run_id)[0]["batch_id"]
    stage.look_at(f"{stage.page('pipelines', DAG, 'batches', str(number))}")


def bring(stage: DemoStage) -> None:
    """Load impressions for a part of the tour, unless all those that were ever sent are loaded."""
    _prepare(stage)
    [topic] = Broker(pipelines.load_named(DAG).source).topic_facts()
    if not any(partition.end for partition in topic.partitions):
        print("  It begins with ad impressions, which the DAG impressions loads into ads.impressions.")
        stage.switch_on(DAG)
        _send(stage)
    if stage.tideline("plan", DAG, "--dry-run")["batches"]:
        stage.load(DAG)


def _prepare(stage: DemoStage) -> None:
    """Create the table of offers and the topic."""
    create_offers(stage)
    impressions.create_topic(stage.bootstrap)


def create_offers(stage: DemoStage) -> None:
    """Create the table of offers, unless it is there."""
    text = (pipelines.load_named(DAG).folder / "offers.sql").read_text(encoding="utf-8")
    with stage.ledger.transaction():
        stage.ledger.run_sql(SQL(text.replace("%", "%%")), {})


def _send(stage: DemoStage) -> impressions.SentImpressions:
    since = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS)
    with show_step(f"{RECORDS:,} impressions into Kafka"):
        return impressions.produce(stage.bootstrap, RECORDS, seed=time.time_ns(), since=since)


def account(stage: DemoStage, sent: impressions.SentImpressions) -> list[str]:
    """Compare what was sent with the table and the rejects, by partition and offset.

    Returns:
        One line for each difference.
    """
    print("\n6. The account: what was sent, compared with what is there, by partition and offset.")
    loaded = stage.look("list_loaded", pipeline=DAG)
    rows, rejected = (
        [(row["kafka_partition"], row["kafka_offset"]) for row in loaded if row["is_output"] is is_output]
        for is_output in (True, False)
    )
    output, rejects = set(rows), set(rejected)
    problems = sent.compare(output, rejects)
    if twice := len(loaded) - len(output) - len(rejects):
        problems.append(f"{twice:,} records are there twice")
    there = output | rejects
    print(f"  {len(sent.written):9,} good records     {len(sent.written.keys() & output):9,} are in ads.impressions")
    print(
        f"  {len(sent.rejected):9,} malformed ones   {len(sent.rejected & rejects):9,} are rejects, with bytes and reason"
    )
    print(
        f"  {len(sent.filtered):9,} robots           {len(sent.filtered - there):9,} are in neither: transform.py filters them"
    )
    stage.look_at(f"{TIDELINE} rejects {DAG}")
    return [f"ads.impressions: {problem}" for problem in problems]


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
