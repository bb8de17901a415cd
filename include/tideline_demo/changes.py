"""A part of the tour: the pipeline `advertisers` keeps a table as it is in another database, from the changes that Debezium reads in its log.

The connector is a real one. It is killed, and sends again what it had sent since it last saved its place.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tideline.errors import RetryableError
from tideline.ledger.connection import Ledger
from tideline_demo.stage import DemoStage, changed, look
from tideline_stack.connect import Connect
from tideline_stack.postgres import Postgres
from tideline_stack.supervisor import RUN, show_step

DAG = "advertisers"
_SECONDS = 120.0
"""Time limit in seconds for the connector to send what has changed."""
_MARKS = 12
"""How many advertisers are changed to see that all changes before them were sent. Some of them are in each partition of the topic."""
_COMPARED = ("advertiser_id", "name", "country", "budget", "active", "signed_on", "changed_at")


def play(stage: DemoStage) -> list[str]:
    """Load a snapshot of the table and its changes, kill the connector in between, load a batch again, and compare the two tables.

    Returns:
        One line for each difference.
    """
    with _crm(stage) as (crm, connect):
        _until_sent(crm, connect, "A real Debezium reads the table")
        problems = _compared(stage, crm, stage.load(DAG), "the snapshot")
        changed(crm, "change_advertisers")
        _until_sent(crm, connect, "Changes, deletions and a new key")
        connect.wait_for_saved_place(seconds=_SECONDS)
        connect.kill()
        changed(crm, "change_advertisers")
        connect.start()
        _until_sent(crm, connect, "The connector is killed, and sends again")
        run_id = stage.load(DAG)
        problems += _compared(stage, crm, run_id, "the changes")
        for batch in stage.look("list_batches_of_run", pipeline=DAG, run_id=run_id):
            number = str(batch["batch_id"])
            stage.follow(DAG, stage.tideline("replay", DAG, "--batch", number, "--reason", "the tour loads it again"))
        problems += _compared(stage, crm, run_id, "a replay")
    stage.look_at(stage.page("pipelines", DAG))
    return problems


@contextmanager
def _crm(stage: DemoStage) -> Iterator[tuple[Ledger, Connect]]:
    """Create the database of the CRM in the stack's Postgres, and start a connector. At the end stop it, and leave nothing that keeps the log."""
    server = Postgres(RUN / "postgres", port=urlsplit(stage.environment["TIDELINE_LEDGER_URL"]).port or 0)
    server.ensure_database("crm")
    url = server.url("crm")
    connect = Connect(folder=RUN / "crm", bootstrap=stage.bootstrap, url=url, table="public.advertisers", partitions=3)
    with Ledger(url, actor="tour") as crm:
        changed(crm, "create_advertisers")
        try:
            connect.start()
            yield crm, connect
        finally:
            connect.kill()
            _drop_slot(crm, connect)
            shutil.rmtree(connect.folder, ignore_errors=True)


def _drop_slot(crm: Ledger, connect: Connect) -> None:
    """Drop the connector's replication slot, once the server has noticed that the connector is gone."""
    deadline = time.monotonic() + _SECONDS
    while not look(crm, "drop_slot", slot=connect.slot):
        if time.monotonic() > deadline:
            raise RetryableError(
                f"the replication slot {connect.slot} is still there", next_step="run this part of the tour again"
            )
        time.sleep(0.2)


def _until_sent(crm: Ledger, connect: Connect, what: str) -> None:
    """Wait until the connector has sent all changes so far: it sends them in their order, and each partition gets a last one."""
    name = f"seen at {time.time_ns()}"
    with show_step(what):
        changed(crm, "mark_advertisers", marker=name, count=_MARKS)
        connect.wait_for(f'"{name}"'.encode(), n_keys=_MARKS, seconds=_SECONDS)


def _compared(stage: DemoStage, crm: Ledger, run_id: str, after: str) -> list[str]:
    """Compare the table with that of the CRM, row by row."""
    source, target = look(crm, "list_advertisers"), stage.look("list_loaded_advertisers")
    rows: list[set[tuple[Any, ...]]] = [
        {tuple(row[name] for name in _COMPARED) for row in one} for one in (source, target)
    ]
    print(f"  After {after}: {len(source):,} advertisers in the CRM, {len(target):,} in ads.advertisers.")
    if rows[0] == rows[1]:
        return []
    return [
        f"ads.advertisers: after {after}, {len(rows[0] ^ rows[1]):,} rows differ from those of the CRM, run {run_id}"
    ]
