"""Pipelines in every condition that the page tells apart, each with its history."""

from given_ledger import ledgers, states
from hostile import CONTROL, HOSTILE, HOSTILE_FOLDER, HOSTILE_RUN
from tideline.ledger.connection import Ledger
from website import Website


def declare_all(site: Website, *, hostile: bool = True) -> None:
    """Declare pipelines in every condition, and give each its history.

    Args:
        site: It is empty.
        hostile: Whether what people, records and errors say is hostile. Not for screenshots.
    """
    words, run, folder = (f" {HOSTILE}{CONTROL}", HOSTILE_RUN, HOSTILE_FOLDER) if hostile else ("", "manual__first", "")
    site.declare("clicks", "clicks")
    site.fill("clicks", 300, partitions=3)
    site.load(
        "clicks",
        "manual__first",
        rejected=20,
        reason=f"not JSON: unexpected character{words}",
        value=f"<none>{words}".encode() + b"\xff\x00",
        subject=f"clicks-value{words}",
    )
    site.add("clicks", 90, partitions=3)
    site.load("clicks", "manual__second")
    site.add("clicks", 30, partitions=3)
    site.skip("clicks", "clicks", 135, 138, reason=f"a test of the sender{words}", actor=f"ada{words}")
    site.declare("orders", "orders", description=f"The orders{words}")
    site.fill("orders", 50)
    site.load("orders", "manual__first")
    site.add("orders", 40)
    site.fail(
        "orders", "manual__second", f"the disk is full{words}\n  Next: free it\n  More: docs/runbook.md#stream-stopped"
    )
    site.declare("payments", "payments", tags=["money"])
    site.fill("payments", 40)
    site.load("payments", run)
    site.stop("payments", "payments", "manual__second")
    site.declare("moved", "moved")
    site.fill("moved", 10)
    site.load("moved", "manual__first")
    site.recreate("moved", "moved", "manual__second")
    site.declare("grown", "grown", sink={"table": "page.grown", "mode": "upsert", "key": ["value"]})
    site.fill("grown", 10)
    site.load("grown", "manual__first")
    site.grow("grown", "grown", "manual__second")
    site.declare(
        "visits",
        "visits",
        value={"format": "json", "columns": {"user_id": "string"}},
        state={"key": "user_id", "columns": dict(states.COLUMNS.types)},
    )
    with Ledger(site.writer_url, actor="test") as session:
        ledgers.execute(session, "CREATE SCHEMA page; CREATE TABLE page.visits (tideline_batch bigint)")
    site.fill("visits", 10)
    site.fold("visits", "manual__first", 3, 4)
    site.add("visits", 10)
    site.fold("visits", "manual__second", 5)
    site.declare("far_away", "far")
    site.fill("far", 20)
    site.load("far_away", "manual__first")
    site.lose_broker("far_away")
    site.declare("unborn", "unborn")
    for name in filter(None, ("mistaken", folder)):
        (site.folder / name).mkdir()
        (site.folder / name / "pipeline.yaml").write_text("description: It has no source\n")
