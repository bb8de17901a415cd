"""Offsets that an operator skips: heads pass them with a record of it, and a backfill may fill them later."""

import pytest

from given_ledger import ledgers
from given_ledger.decisions import WHY, abandon, fall_silent, filled, skip, story
from given_ledger.ledgers import everything, query, state
from given_ledger.planners import NAME, ask, coverage, declared, load, next_offsets, piece, plan, ranges_of, run
from given_topics.topics import produce
from servers.concurrency import beside, together
from tideline import flow
from tideline.domain.facts import PartitionFacts
from tideline.domain.requests import Ranges
from tideline.errors import FatalError
from tideline.ledger import publishing

pytestmark = pytest.mark.topic(partitions=2)


@pytest.fixture
def pipeline(broker, topic):
    return filled(broker, topic)


def test_a_skipped_range_at_the_head_moves_it_and_one_ahead_waits(ledger, ledger_url, pipeline):
    plan(ledger_url, declared(pipeline.source.bootstrap_servers, *pipeline.source.topics), "begin")
    [batch_id] = query(ledger, "SELECT batch_id FROM tideline.batch")[0]
    abandon(ledger_url, batch_id)
    assert skip(ledger_url, pipeline, 4, 6) == []
    assert next_offsets(ledger) == {0: 0, 1: 0}
    assert skip(ledger_url, pipeline, 0, 2) == []
    assert next_offsets(ledger) == {0: 2, 1: 0}
    batch_ids = plan(ledger_url, pipeline, "the rest")
    assert sorted(ranges_of(ledger, n)[0] for n in batch_ids if 0 in ranges_of(ledger, n)) == [(2, 4), (6, 10)]
    load(ledger, batch_ids)
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert [(a, b) for a, b, _ in coverage(ledger)] == [(0, 2), (2, 4), (4, 6), (6, 10)]
    assert query(
        ledger, "SELECT DISTINCT hole::text, reason, decided_by FROM tideline.coverage WHERE hole IS NOT NULL"
    ) == [("skipped", WHY, "ada")]


def test_a_batch_with_a_skipped_offset_is_abandoned_and_its_rest_planned_again(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    assert skip(ledger_url, pipeline, 1, 2) == [first]
    assert [state(ledger, n)[0] for n in (first, second)] == ["abandoned", "planned"]
    again = plan(ledger_url, pipeline, "second")
    assert [ranges_of(ledger, n) for n in again] == [{0: (3, 10)}, {0: (0, 1), 1: (0, 4)}, {0: (2, 3)}]
    load(ledger, again)
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert story(ledger) == [("ada", "abandon", WHY), ("ada", "skip", WHY)]


def test_skipping_twice_changes_nothing(ledger, ledger_url, pipeline):
    plan(ledger_url, pipeline, "first")
    skip(ledger_url, pipeline, 2, 8)
    before = everything(ledger)
    assert skip(ledger_url, pipeline, 2, 8, reason="again") == []
    assert skip(ledger_url, pipeline, 3, 5, reason="again") == []
    assert everything(ledger) == before


def test_a_skip_beside_an_older_one_takes_only_what_is_left(ledger, ledger_url, pipeline):
    skip(ledger_url, pipeline, 3, 5)
    skip(ledger_url, pipeline, 0, 10, reason="all of it")
    assert query(ledger, "SELECT lower(offsets), upper(offsets), reason FROM tideline.coverage ORDER BY offsets") == [
        (0, 3, "all of it"),
        (3, 5, WHY),
        (5, 10, "all of it"),
    ]
    assert next_offsets(ledger) == {0: 10, 1: 0}


def test_a_skip_that_is_not_possible_is_refused_with_all_reasons(broker, ledger, ledger_url, topic, pipeline):
    late = declared(broker.bootstrap, topic, start="latest")
    plan(ledger_url, late, "begin at ten")
    produce(broker, topic, 5)
    [batch_id] = load(ledger, plan(ledger_url, late, "first"))
    produce(broker, topic, 5)
    opened = plan(ledger_url, late, "second")
    before = everything(ledger)
    with pytest.raises(
        FatalError, match=rf"\[10, 15\) is loaded by batch {batch_id}; the stream begins at 10.*; the log ends at 20"
    ):
        skip(ledger_url, late, 5, 25)
    with pytest.raises(FatalError, match="the pipeline follows no such partition"):
        skip(ledger_url, late, 0, 1, partition=2)
    ledgers.claim(ledger, opened[0])
    with pytest.raises(FatalError, match="is being written"):
        skip(ledger_url, late, 15, 16)
    assert everything(ledger)["coverage"] == before["coverage"]
    assert state(ledger, opened[0])[0] == "writing"


def test_a_batch_published_while_its_skip_waits_stays_and_the_skip_is_refused(ledger, ledger_url, pipeline):
    """A refused decision must not look like one that was carried out."""
    first, _ = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    fall_silent(ledger)
    waiting = []

    def insert_output(_):
        waiting.append(beside(lambda: skip(ledger_url, pipeline, 0, 2)))
        ledgers.wait_for_a_lock(ledger_url)
        return publishing.Written(n_written={piece.stream_id: len(piece.offsets) for piece in attempt.ranges})

    facts = {p.stream_id: PartitionFacts(partition=0, log_start=0, end=10) for p in attempt.ranges}
    publishing.publish(ledger, attempt, insert_output, facts=facts, filtered_by_difference=False)
    with pytest.raises(FatalError, match=f"batch {first} is published"):
        waiting[0]()
    assert coverage(ledger) == [(0, 3, first)]


def test_a_backfill_fills_what_was_skipped_in_part_and_the_rest_keeps_its_reason(ledger, ledger_url, pipeline):
    skip(ledger_url, pipeline, 0, 10)
    before = query(ledger, "SELECT reason, decided_by, recorded_at FROM tideline.coverage")
    [batch_id] = ask(ledger_url, pipeline, "fill", Ranges(ranges=(piece(pipeline, 4, 6),))).batch_ids
    assert coverage(ledger) == [(0, 10, "skipped")]
    load(ledger, [batch_id])
    assert coverage(ledger) == [(0, 4, "skipped"), (4, 6, batch_id), (6, 10, "skipped")]
    assert (
        query(ledger, "SELECT DISTINCT reason, decided_by, recorded_at FROM tideline.coverage WHERE hole IS NOT NULL")
        == before
    )
    assert query(ledger, "SELECT count(*) FROM tideline.event WHERE action = 'skip'") == [(1,)]
    rest = ask(ledger_url, pipeline, "the rest", Ranges(ranges=(piece(pipeline, 0, 10),)))
    assert rest.notes == [
        f"{pipeline.source.topics[0]}/0 [4, 6): loaded by batch {batch_id}; say `replace` to load it again"
    ]
    load(ledger, rest.batch_ids)
    assert {hole for *_, hole in coverage(ledger)} & {"skipped"} == set()
    assert next_offsets(ledger)[0] == 10


def test_a_skip_beside_plans_leaves_each_offset_in_one_hand(ledger, ledger_url, broker, topic, pipeline):
    small = declared(broker.bootstrap, topic, batch_records=3)

    def planned(n):
        return lambda: plan(ledger_url, small, f"run {n}")

    def skipped(n):
        return lambda: skip(ledger_url, small, 2 * n, 2 * n + 3, reason=f"skip {n}")

    for _ in range(2):
        together(*(call(n) for n in range(4) for call in (planned, skipped)))
        produce(broker, topic, 5)
    load(ledger, plan(ledger_url, small, "the rest"))
    flow.advance(ledger, NAME, run("the rest"))
    assert next_offsets(ledger) == {0: 20, 1: 4}
    assert sum(end - start for start, end, _ in coverage(ledger)) == 20
    assert sum(end - start for start, end, owner in coverage(ledger) if owner == "skipped") == 9
