"""A part of the tour: the pipeline `sessions` folds events into visits, also after an outage, and once more after a rewind."""

import time
from collections.abc import Mapping
from datetime import timedelta

from tideline.ledger.connection import Ledger
from tideline_demo import ad_events, visits
from tideline_demo.ad_events import Event, Place
from tideline_demo.stage import TIDELINE, DemoStage, look
from tideline_demo.visits import Visits

DAG = "sessions"
USERS = 3_000


def play(stage: DemoStage) -> list[str]:
    """Load events before and after an outage, compare visits, states and rejects with them, rewind, and load again.

    Returns:
        One line for each difference.
    """
    start = ad_events.beginning(stage.bootstrap)
    events = ad_events.generate(start, USERS, seed=time.time_ns())
    outage = start + timedelta(hours=3)
    print(f"  Visits, from {len(events):,} impressions and clicks: 5 % come hours too late, 1 % out of order.")
    sent = ad_events.produce(stage.bootstrap, (event for event in events if event.arrives_at < outage))
    stage.load(DAG)
    [boundary] = stage.look("find_progress", pipeline=DAG)
    print("  An outage: three hours have no run, and visits last over it. The next run loads what has come.")
    sent |= ad_events.produce(stage.bootstrap, (event for event in events if event.arrives_at >= outage))
    stage.load(DAG)
    before = seen(stage.ledger, sent)
    print(
        f"  ads.sessions holds {len(before.ended):,} visits, {len(before.opened):,} are open, {len(before.rejected):,} late events are rejects."
    )
    problems = visits.expected(sent).compare(before)
    to_batch, reason = str(boundary["newest_batch"]), "the tour folds the rest again"
    done = stage.tideline("rewind", DAG, "--to-batch", to_batch, "--reason", reason)
    left = seen(stage.ledger, sent)
    print(f"  {done['deleted_rows']:,} visits are taken back, {len(left.opened):,} are open as before the outage.")
    stage.load(DAG)
    after = seen(stage.ledger, sent)
    print(f"  Folded again: {len(after.ended):,} visits, {len(after.opened):,} are open.")
    stage.look_at(f"{TIDELINE} state {DAG}   (the visits that are open)")
    problems += [f"after a rewind, {problem}" for problem in before.compare(after)]
    return [f"{DAG}: {problem}" for problem in problems]


def seen(ledger: Ledger, sent: Mapping[Place, Event]) -> Visits:
    """Return what the pipeline has made of the events that were sent."""
    users = {event.user_id for event in sent.values()}
    rows = [row for row in look(ledger, "list_visits", pipeline=DAG) if row["user_id"] in users]
    rejected = {(row["partition"], row["kafka_offset"]) for row in look(ledger, "list_rejected", pipeline=DAG)}
    columns = ("user_id", "first_at", "last_at", "impressions", "clicks", "revenue")
    ended, opened = (
        [tuple(row[name] for name in columns) for row in rows if row["has_ended"] is has_ended]
        for has_ended in (True, False)
    )
    return Visits(ended=ended, opened=opened, rejected=rejected & sent.keys())
