"""Concurrent moves: in any order, no offset gets two owners, and none is left without an owner or a decision."""

import re
from itertools import pairwise
from uuid import uuid4

import pytest

from given_ledger import ledgers
from given_ledger.ledgers import query, state
from given_ledger.planners import NAME, ask, coverage, decide, declared, finish, load, next_offsets, plan, run
from given_topics.topics import created, recreate, stamped, topic_of, window
from servers.concurrency import beside, together
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges
from tideline.errors import FatalError, RetryableError
from tideline.ledger import attempts, heads, publishing
from tideline.ledger.connection import Ledger

PARTITIONS, RECORDS = 3, 24
pytestmark = pytest.mark.topic(minutes=[RECORDS] * PARTITIONS)


def patient(call):
    """Retry retryable errors as Airflow does; return the problems of the failed tries, and the answer."""
    tried = []
    while True:
        try:
            return tried, call()
        except RetryableError as error:
            tried.append(error.problem)
            assert len(tried) < 5, tried


def assert_each_offset_has_one_owner(ledger):
    assert next_offsets(ledger) == dict.fromkeys(range(PARTITIONS), RECORDS)
    for partition in range(PARTITIONS):
        edges = [(0, 0), *((a, b) for a, b, _ in coverage(ledger, partition)), (RECORDS, RECORDS)]
        assert all(left[1] == right[0] for left, right in pairwise(edges))
    # Everything that was planned and not abandoned has been loaded by its own batch.
    assert query(
        ledger, "SELECT DISTINCT state::text FROM tideline.batch WHERE state NOT IN ('abandoned', 'superseded')"
    ) == [("advanced",)]


@pytest.mark.parametrize("turn", range(2))
def test_windows_ranges_skips_and_plans_at_once(ledger, ledger_url, broker, topic, turn):
    pipeline = declared(broker.bootstrap, topic, batch_records=7, run_batches=2)

    def windows():
        return ask(ledger_url, pipeline, f"window {uuid4()}", window(5 + turn, 15))

    def ranges():
        wanted = Ranges(ranges=(NamedRange(topic, 0, OffsetRange(10, 20)), NamedRange(topic, 2, OffsetRange(0, 4))))
        return ask(ledger_url, pipeline, f"ranges {uuid4()}", wanted)

    def skip():
        return decide(ledger_url, pipeline, flow.skip, NamedRange(topic, 1, OffsetRange(16, 20)), reason="poison")

    def new():
        return ask(ledger_url, pipeline, f"new {uuid4()}", NewRecords())

    retried = [
        tried
        for tried, _ in together(
            *(lambda c=c: patient(c) for c in (windows, ranges, skip, new, windows, skip, ranges, new))
        )
    ]
    assert retried == [[]] * 8, "they take turns"
    while batch_ids := plan(ledger_url, pipeline, f"rest {uuid4()}"):
        load(ledger, batch_ids)
    assert_each_offset_has_one_owner(ledger)
    assert [row for row in coverage(ledger, 1) if row[2] == "skipped"] == [(16, 20, "skipped")]
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]


def test_moves_of_all_kinds_beside_writers_and_advances(ledger, ledger_url, broker, topic):
    pipeline = declared(broker.bootstrap, topic, batch_records=11)
    load(ledger, ask(ledger_url, pipeline, "begin", window(0, 8)).batch_ids)

    def written(batch_ids):
        with Ledger(ledger_url, actor="writer") as own:
            for batch_id in batch_ids:
                claimed = attempts.claim(own, batch_id, writer(), stale_after_seconds=60)
                if isinstance(claimed, attempts.Attempt):
                    ledgers.stage(own, claimed)
                    ledgers.publish(own, claimed)

    def live():
        written(plan(ledger_url, pipeline, f"new {uuid4()}"))

    def again():
        written(ask(ledger_url, pipeline, f"window {uuid4()}", window(2, 14, replace=True), reason="wrong").batch_ids)

    def skip():
        try:
            decide(ledger_url, pipeline, flow.skip, NamedRange(topic, 1, OffsetRange(18, 20)), reason="poison")
        except FatalError as error:
            return re.search("is loaded by|is being written|is published", error.problem)[0]
        return "skipped"

    def advance():
        with Ledger(ledger_url, actor="advance") as own:
            heads.advance_published(own, NAME)

    together(*(lambda c=c: patient(c) for c in (live, again, skip, advance, again, live, advance, again)))
    load(ledger, [n for n in plan(ledger_url, pipeline, "rest") if state(ledger, n)[0] in {"planned", "failed"}])
    flow.advance(ledger, NAME, run("rest"))
    assert_each_offset_has_one_owner(ledger)


def writer():
    return attempts.Writer(dag_id="d", run_id=str(uuid4()), task_id="write", try_number=1)


def test_a_replay_and_an_advance_at_once_do_not_wait_for_ever(ledger, ledger_url, broker, topic):
    """The replay locks the batches that it replaces while the advance needs the published ones, and vice versa."""
    pipeline = declared(broker.bootstrap, topic, batch_records=9)
    load(ledger, plan(ledger_url, pipeline, "all"))
    for turn in range(4):
        replays = ask(ledger_url, pipeline, f"replay {turn}", window(0, 24, replace=True), reason="again").batch_ids

        def write(batch_ids):
            with Ledger(ledger_url, actor="writer") as own:
                finish(own, batch_ids)

        def advance():
            with Ledger(ledger_url, actor="advance") as own:
                for _ in range(5):
                    heads.advance_published(own, NAME)

        halves = [replays[::2], replays[1::2]]
        calls = [*(lambda part=part: write(part) for part in halves), advance, advance]
        answers = together(*(lambda c=c: patient(c) for c in calls))
        assert all("deadlock" not in problem for tried, _ in answers for problem in tried)
        flow.advance(ledger, NAME, run(f"replay {turn}"))
        assert {owner for p in range(PARTITIONS) for *_, owner in coverage(ledger, p)} == set(replays)
    assert_each_offset_has_one_owner(ledger)


def test_two_replays_of_the_same_offsets_take_turns_and_the_later_one_owns_them(ledger, ledger_url, broker, topic):
    pipeline = declared(broker.bootstrap, topic)
    [first] = load(ledger, plan(ledger_url, pipeline, "all"))
    pairs = [
        ask(ledger_url, pipeline, f"replay {n}", window(2 * n, 10 + 2 * n, replace=True), reason="again").batch_ids
        for n in range(4)
    ]

    def write(batch_ids):
        with Ledger(ledger_url, actor="writer") as own:
            finish(own, batch_ids)

    together(*(lambda b=b: write(b) for b in pairs))
    heads.advance_published(ledger, NAME)
    for partition in range(PARTITIONS):
        edges = [(0, 0), *((a, b) for a, b, _ in coverage(ledger, partition)), (RECORDS, RECORDS)]
        assert all(left[1] == right[0] for left, right in pairwise(edges))
    owned = {owner for p in range(PARTITIONS) for *_, owner in coverage(ledger, p)}
    assert first in owned, "it keeps what was not replaced"
    states = dict(query(ledger, "SELECT batch_id, state::text FROM tideline.batch"))
    assert {n for n, found in states.items() if found == "superseded"} == set(states) - owned


def test_a_replay_that_waits_for_another_one_does_not_take_its_rows_for_the_old_ones(ledger, ledger_url, broker, topic):
    """Its snapshot of the owners is older than the other replay's commit."""
    pipeline = declared(broker.bootstrap, topic)
    [first] = load(ledger, plan(ledger_url, pipeline, "all"))
    one, other = (
        ask(ledger_url, pipeline, name, window(0, 24, replace=True), reason="again").batch_ids[0]
        for name in ("one", "other")
    )
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, one))
    others = []

    def insert_output(_):
        others.append(beside(lambda: write_elsewhere(ledger_url, other)))
        ledgers.wait_for_a_lock(ledger_url)
        return publishing.Written(n_written={p.stream_id: len(p.offsets) for p in attempt.ranges})

    facts = {p.stream_id: PartitionFacts(partition=0, log_start=0, end=RECORDS) for p in attempt.ranges}
    publishing.publish(ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)
    others[0]()
    assert [state(ledger, n)[0] for n in (first, one, other)] == ["superseded", "superseded", "published"]
    assert {owner for p in range(PARTITIONS) for *_, owner in coverage(ledger, p)} == {other}


def write_elsewhere(url, batch_id):
    with Ledger(url, actor="writer") as own:
        finish(own, [batch_id])


def test_adopting_beside_plans_and_writers(ledger, ledger_url, broker, admin):
    topic, other = created(admin, f"adopt_{uuid4().hex[:8]}"), topic_of(admin, broker, 6)
    pipeline = declared(broker.bootstrap, topic, other, batch_records=4)
    stamped(broker, topic, range(6))
    plan(ledger_url, pipeline, "first")
    recreate(admin, topic)
    stamped(broker, topic, range(3))

    def adopt():
        try:
            return decide(ledger_url, pipeline, flow.adopt_topic, topic, reason="as announced")
        except FatalError as error:
            return error.problem

    def new():
        return plan(ledger_url, pipeline, f"new {uuid4()}")

    together(*(lambda c=c: patient(c) for c in (adopt, new, adopt, new)))
    load(ledger, plan(ledger_url, pipeline, "rest"))
    flow.advance(ledger, NAME, run("rest"))
    found = query(ledger, "SELECT topic, state::text, next_offset FROM tideline.stream")
    assert sorted(found) == sorted([(topic, "retired", 0), (topic, "active", 3), (other, "active", 6)])
