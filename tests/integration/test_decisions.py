"""Abandoning batches: each decision records who and why, and leaves every offset accounted for."""

import pytest

from given_ledger import ledgers
from given_ledger.decisions import WHY, abandon, fall_silent, filled, skip, story
from given_ledger.ledgers import everything, query, state
from given_ledger.planners import (
    NAME,
    ask,
    coverage,
    decide,
    declared,
    finish,
    load,
    next_offsets,
    piece,
    plan,
    ranges_of,
    run,
)
from given_topics.topics import produce
from servers.concurrency import together
from tideline import flow
from tideline.domain.requests import Ranges
from tideline.domain.states import BatchState
from tideline.errors import FatalError, SupersededError
from tideline.ledger import attempts, heads
from tideline.ledger.connection import Ledger

pytestmark = pytest.mark.topic(partitions=2)


@pytest.fixture
def pipeline(broker, topic):
    return filled(broker, topic)


def test_offsets_of_an_abandoned_batch_are_planned_again_and_heads_pass_them(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    assert [ranges_of(ledger, n) for n in (first, second)] == [{0: (0, 3), 1: (0, 4)}, {0: (3, 10)}]
    finish(ledger, [second])
    abandon(ledger_url, first)
    assert state(ledger, first) == ("abandoned", 0)
    assert next_offsets(ledger) == {0: 0, 1: 0}
    [late] = plan(ledger_url, pipeline, "second")
    assert late > second
    assert ranges_of(ledger, late) == ranges_of(ledger, first)
    finish(ledger, [late])
    assert heads.advance_published(ledger, NAME) == [second, late]
    assert next_offsets(ledger) == {0: 10, 1: 4}
    assert story(ledger) == [("ada", "abandon", WHY)]


def test_what_was_given_up_and_is_planned_with_newer_records_jams_no_head(ledger, ledger_url, broker, topic):
    """The late batch is before an older one in one partition, and behind it in the other."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 3)
    [first] = plan(ledger_url, pipeline, "first")
    produce(broker, topic, 3)
    produce(broker, topic, 3, partition=1)
    second = plan(ledger_url, pipeline, "second")[-1]
    abandon(ledger_url, first)
    produce(broker, topic, 3, partition=1)
    third = plan(ledger_url, pipeline, "third")[-1]
    assert [ranges_of(ledger, n) for n in (second, third)] == [{0: (3, 6), 1: (0, 3)}, {0: (0, 3), 1: (3, 6)}]
    load(ledger, [second, third])
    flow.advance(ledger, NAME, run("third"))
    assert next_offsets(ledger) == {0: 6, 1: 6}


def test_a_run_whose_batches_were_all_abandoned_plans_again(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    abandon(ledger_url, first)
    assert plan(ledger_url, pipeline, "first") == [second]
    abandon(ledger_url, second)
    again = plan(ledger_url, pipeline, "first")
    assert not {first, second} & set(again)
    assert [ranges_of(ledger, n) for n in again] == [{0: (0, 3), 1: (0, 4)}, {0: (3, 10)}]
    assert plan(ledger_url, pipeline, "first") == again


def test_what_is_published_cannot_be_abandoned(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    finish(ledger, [second])
    before = everything(ledger)
    with pytest.raises(FatalError, match=f"batch {second} is published.*\n.*tideline replay {NAME} --batch {second}"):
        abandon(ledger_url, second)
    assert everything(ledger) == before
    load(ledger, [first])
    with pytest.raises(FatalError, match="is advanced"):
        abandon(ledger_url, second)


def test_a_batch_that_an_attempt_is_writing_cannot_be_abandoned(ledger, ledger_url, pipeline):
    first, _ = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    with pytest.raises(FatalError, match=f"batch {first} is being written by write try 1 of .*pid") as caught:
        abandon(ledger_url, first)
    assert "stop that task" in caught.value.next_step
    ledgers.publish(ledger, attempt)


def test_a_dead_writers_batch_can_be_abandoned_and_its_late_publish_is_refused(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    ledgers.stage(ledger, attempt := ledgers.claim(ledger, first))
    fall_silent(ledger)
    abandon(ledger_url, first)
    with pytest.raises(SupersededError, match="state abandoned"):
        ledgers.publish(ledger, attempt)
    assert attempts.claim(ledger, first, ledgers.WRITER, stale_after_seconds=0) is BatchState.ABANDONED
    assert coverage(ledger) == coverage(ledger, 1) == []
    assert query(ledger, "SELECT outcome::text, problem FROM tideline.attempt") == [
        ("failed", "fell silent, and was given up")
    ]
    [late] = set(plan(ledger_url, pipeline, "second")) - {second}
    assert load(ledger, [second, late])
    assert next_offsets(ledger) == {0: 10, 1: 4}


def test_a_batch_that_was_abandoned_is_not_abandoned_twice(ledger, ledger_url, pipeline):
    first, _ = plan(ledger_url, pipeline, "first")
    abandon(ledger_url, first)
    before = everything(ledger)
    abandon(ledger_url, first, reason="once more")
    assert everything(ledger) == before


def test_open_batches_of_every_kind_can_be_abandoned(ledger, ledger_url, pipeline):
    """Batches that reserve nothing have nothing to give back, and are abandoned all the same."""
    load(ledger, plan(ledger_url, pipeline, "first"))
    wanted = Ranges(ranges=(piece(pipeline, 0, 5),), replace=True)
    [replayed] = ask(ledger_url, pipeline, "again", wanted, reason="wrong prices").batch_ids
    abandon(ledger_url, replayed)
    assert state(ledger, replayed)[0] == "abandoned"
    assert ask(ledger_url, pipeline, "again", wanted).batch_ids not in ([], [replayed])


def test_a_batch_that_is_not_there_cannot_be_abandoned(ledger_url):
    with pytest.raises(FatalError, match="batch 7 is not in the ledger"):
        abandon(ledger_url, 7)


@pytest.mark.parametrize("reason", ["", "  ", "\n\t"])
def test_no_decision_goes_without_a_reason(ledger, ledger_url, pipeline, topic, reason):
    first, _ = plan(ledger_url, pipeline, "first")
    before = everything(ledger)
    decisions = [
        lambda: abandon(ledger_url, first, reason=reason),
        lambda: skip(ledger_url, pipeline, 0, 3, reason=reason),
        lambda: decide(ledger_url, pipeline, flow.accept_loss, topic, None, reason=reason),
        lambda: decide(ledger_url, pipeline, flow.accept_partitions, topic, reason=reason),
        lambda: decide(ledger_url, pipeline, flow.adopt_topic, topic, reason=reason),
    ]
    for decision in decisions:
        with pytest.raises(FatalError, match="a decision needs a reason"):
            decision()
    assert everything(ledger) == before


def test_abandoning_beside_a_writer_ends_in_one_of_both_and_loses_nothing(ledger, ledger_url, broker, topic):
    pipeline = declared(broker.bootstrap, topic)
    ended = set()
    for turn in range(8):
        produce(broker, topic, 3)
        [batch_id] = plan(ledger_url, pipeline, f"run {turn}")

        def write(batch_id=batch_id):
            with Ledger(ledger_url, actor="writer") as own:
                claimed = attempts.claim(own, batch_id, ledgers.WRITER, stale_after_seconds=60)
                if isinstance(claimed, attempts.Attempt):
                    ledgers.stage(own, claimed)
                    ledgers.publish(own, claimed)
                    return "published"
                return str(claimed)

        def give_up(batch_id=batch_id):
            try:
                abandon(ledger_url, batch_id)
            except FatalError:
                return "refused"
            return "abandoned"

        wrote, gave_up = together(write, give_up)
        assert (wrote, gave_up) in {("published", "refused"), ("abandoned", "abandoned")}
        assert state(ledger, batch_id)[0] == wrote
        ended.add(wrote)
        load(ledger, plan(ledger_url, pipeline, f"after {turn}") if wrote == "abandoned" else [])
        assert next_offsets(ledger)[0] == 3 * turn + 3
    assert ended
