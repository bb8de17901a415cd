"""A dry run reports what a plan would do, and stores nothing."""

import pytest
from confluent_kafka import TopicPartition

from given_ledger import ledgers
from given_ledger.ledgers import everything, query
from given_ledger.planners import NAME, ask, decide, declared, finish, load, plan
from given_topics.topics import at, stamped, window
from servers.concurrency import beside, together
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, OneBatch, Ranges
from tideline.errors import FatalError, NeedsOperatorError, RetryableError
from tideline.flow import Draft
from tideline.ledger import attempts, heads, reservations
from tideline.ledger.connection import Ledger

pytestmark = pytest.mark.topic(minutes=(12, 5))


def drafts_of(ledger, batch_ids):
    found = []
    for batch_id in batch_ids:
        with ledger.transaction():
            ranges = [NamedRange(p.topic, p.partition, p.offsets) for p in attempts.ranges(ledger, batch_id)]
        kind = query(ledger, "SELECT kind::text FROM tideline.batch WHERE batch_id = %s", batch_id)[0][0]
        found.append(Draft(kind=kind, ranges=ranges))
    return found


@pytest.fixture
def world(broker, topic, ledger, ledger_url):
    """Create some of everything: loaded, skipped, failed, published and waiting, rejected, abandoned, and new."""
    pipeline = declared(broker.bootstrap, topic, batch_records=4, run_batches=2)
    loaded = load(ledger, plan(ledger_url, pipeline, "loaded", until=at(3)))
    decide(ledger_url, pipeline, flow.skip, NamedRange(topic, 0, OffsetRange(3, 5)), reason="poison")
    failed, published = plan(ledger_url, pipeline, "failed")
    attempts.fail(ledger, ledgers.claim(ledger, failed), "lost")
    finish(ledger, [published])
    [given_up] = ask(ledger_url, pipeline, "given up", OneBatch(batch_id=loaded[0], replace=True)).batch_ids
    flow.abandon(ledger, given_up, reason="no")
    stamped(broker, topic, range(12, 20))
    return pipeline, loaded[0], failed


REQUESTS = {
    "new records": lambda *_: NewRecords(),
    "new records until": lambda *_: NewRecords(until=at(14)),
    "window": lambda *_: window(0, 16),
    "window, replace": lambda *_: window(0, 16, replace=True),
    "ranges": lambda topic, *_: Ranges(ranges=(NamedRange(topic, 0, OffsetRange(2, 19)),), replace=True),
    "a loaded batch": lambda _, loaded, __: OneBatch(batch_id=loaded, replace=True),
    "an open batch": lambda _, __, failed: OneBatch(batch_id=failed),
    "rejects": lambda *_: KeptRejects(),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_dry_run_keeps_nothing_and_says_what_a_plan_then_does(ledger, ledger_url, world, name):
    pipeline, loaded, failed = world
    request = REQUESTS[name](pipeline.source.topics[0], loaded, failed)
    before = everything(ledger)
    drafts, notes = decide(ledger_url, pipeline, flow.dry_run, request)
    assert everything(ledger) == before
    planned = ask(ledger_url, pipeline, "then", request)
    assert drafts == drafts_of(ledger, planned.batch_ids)
    assert [line.split(": batch")[0] for line in notes] == [line.split(": batch")[0] for line in planned.notes]
    assert drafts or name == "rejects"


def test_a_dry_run_of_a_pipeline_that_was_never_planned_leaves_no_trace_of_it(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    before = everything(ledger)
    drafts, _ = decide(ledger_url, pipeline, flow.dry_run, NewRecords())
    assert drafts == [
        Draft(kind="live", ranges=[NamedRange(topic, 0, OffsetRange(0, 12)), NamedRange(topic, 1, OffsetRange(0, 5))])
    ]
    assert everything(ledger) == before


def test_a_dry_run_sees_the_heads_that_a_plan_would_see_and_leaves_them(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    finish(ledger, plan(ledger_url, pipeline, "first"))
    drafts, notes = decide(ledger_url, pipeline, flow.dry_run, window(0, 3, replace=True))
    assert ([draft.kind for draft in drafts], notes) == (["replay"], [])
    assert query(ledger, "SELECT DISTINCT next_offset FROM tideline.stream") == [(0,)]


def test_a_dry_run_of_the_latest_shows_no_hole_to_other_sessions(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, source={"delivery": "latest_wins"}, batch_records=4, run_batches=1)
    plan(ledger_url, pipeline, "first")
    stamped(broker, topic, range(12, 20))
    before = everything(ledger)
    drafts, _ = decide(ledger_url, pipeline, flow.dry_run, NewRecords())
    assert everything(ledger) == before
    assert drafts == drafts_of(ledger, plan(ledger_url, pipeline, "second"))


def test_a_dry_run_raises_what_a_plan_raises(admin, broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    load(ledger, plan(ledger_url, pipeline, "begin"))
    stamped(broker, topic, range(12, 20))
    admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result()
    gone = Ranges(ranges=(NamedRange(topic, 1, OffsetRange(90, 91)),))
    for number, (request, error, said) in enumerate(
        (
            (gone, FatalError, "Kafka holds"),
            (OneBatch(batch_id=99), FatalError, "the ledger does not have it"),
            (NewRecords(), NeedsOperatorError, r"offsets \[12, 15\) are gone"),
        )
    ):
        before = everything(ledger)
        with pytest.raises(error, match=said):
            decide(ledger_url, pipeline, flow.dry_run, request)
        assert everything(ledger) == before
        with pytest.raises(error, match=said):
            ask(ledger_url, pipeline, f"run {number}", request)


def test_a_dry_run_that_waits_for_a_plan_holds_nothing(broker, topic, ledger, ledger_url):
    """It walks the heads and then plans: a walk that locks a published batch before the pipeline would deadlock with an advance."""
    pipeline = declared(broker.bootstrap, topic)
    finish(ledger, plan(ledger_url, pipeline, "first"))
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        reservations.lock_pipeline(ledger, NAME)
        dry_run_ends = beside(lambda: decide(ledger_url, pipeline, flow.dry_run, window(0, 3, replace=True)))
        ledgers.wait_for_a_lock(ledger_url)
        cursor.execute("SELECT FROM tideline.batch FOR NO KEY UPDATE NOWAIT")
    drafts, _ = dry_run_ends()
    assert [draft.kind for draft in drafts] == ["replay"]


def test_a_dry_run_beside_plans_and_advances_disturbs_none_of_them(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=3)

    def looking():
        try:
            decide(ledger_url, pipeline, flow.dry_run, NewRecords())
        except RetryableError as error:
            return error.problem
        return None

    def advancing():
        with Ledger(ledger_url, actor="advance") as own:
            heads.advance_published(own, NAME)

    for turn in range(6):
        stamped(broker, topic, range(20 + turn, 24 + turn))
        planned, *rest = together(lambda t=turn: plan(ledger_url, pipeline, f"run {t}"), looking, advancing, looking)
        assert rest == [None, None, None]
        finish(ledger, planned)
