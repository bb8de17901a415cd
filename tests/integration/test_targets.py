"""Runs for certain offsets: a window, ranges, a batch, rejects. Each loads what is missing once, and nothing twice."""

import pytest

from given_ledger import ledgers
from given_ledger.ledgers import query, state
from given_ledger.planners import (
    NAME,
    ask,
    coverage,
    declared,
    finish,
    kinds,
    load,
    next_offsets,
    piece,
    plan,
    ranges_of,
    run,
    these,
)
from given_topics.topics import delete_before, stamped, topic_of, window
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, OneBatch, Ranges
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger import attempts, reservations
from tideline.ledger.connection import Ledger


@pytest.fixture(scope="module")
def records(admin, broker):
    """Create a read-only topic: minutes 0 to 11 in partition 0, 0 to 4 in partition 1."""
    return topic_of(admin, broker, 12, 5)


@pytest.fixture
def pipeline(broker, records):
    return declared(broker.bootstrap, records, batch_records=4, run_batches=2)


# Ranges ----------------------------------------------------------------------------------------------------------


def test_ranges_are_loaded_wherever_they_lie_and_heads_pass_them_in_order(ledger, ledger_url, pipeline):
    given = ask(ledger_url, pipeline, "ranges", these(pipeline, (6, 8), (2, 4), (4, 5), (1, 2, 1))).batch_ids
    assert {kind for kind, _ in kinds(ledger, given)} == {"backfill"}
    load(ledger, given)
    assert next_offsets(ledger) == {0: 0, 1: 0}
    flow.advance(ledger, NAME, run("ranges"))
    while rest := plan(ledger_url, pipeline, f"rest {next_offsets(ledger)}"):
        load(ledger, rest)
    assert next_offsets(ledger) == {0: 12, 1: 5}
    assert sum(end - start for start, end, _ in coverage(ledger)) == 12


def test_ranges_that_cannot_be_read_are_all_named_and_nothing_is_planned(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 8, 4)
    pipeline = declared(broker.bootstrap, topic)
    delete_before(admin, topic, 2)
    with pytest.raises(FatalError) as caught:
        ask(
            ledger_url,
            pipeline,
            "beside",
            Ranges(ranges=(piece(pipeline, 0, 1, 7), NamedRange("other", 0, OffsetRange(0, 1)))),
        )
    assert f"{topic}/7 [0, 1): no such partition; the pipeline reads {topic}/0, {topic}/1" in caught.value.problem
    assert "other/0 [0, 1): no such partition" in caught.value.problem
    with pytest.raises(FatalError) as caught:
        ask(ledger_url, pipeline, "gone", these(pipeline, (1, 3), (7, 9), (0, 5, 1), (4, 5)))
    assert caught.value.problem.splitlines()[1:] == [
        f"    {topic}/0 [1, 3): Kafka holds [2, 8) of this partition",
        f"    {topic}/0 [7, 9): Kafka holds [2, 8) of this partition",
        f"    {topic}/1 [0, 5): Kafka holds [0, 4) of this partition",
    ]
    assert query(ledger, "SELECT count(*) FROM tideline.batch") == [(0,)]


def test_ranges_of_a_stopped_stream_are_refused_and_those_of_the_others_are_not(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 0, 0)
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    for partition in range(2):
        stamped(broker, topic, range(6), partition=partition)
    delete_before(admin, topic, 2)
    with pytest.raises(FatalError, match=rf"{topic}/0 \[3, 4\): the stream is stopped: offsets \[0, 2\) are gone"):
        ask(ledger_url, pipeline, "stopped", these(pipeline, (3, 4)))
    load(ledger, ask(ledger_url, pipeline, "healthy", these(pipeline, (0, 6, 1))).batch_ids)
    again = ask(ledger_url, pipeline, "healthy again", these(pipeline, (0, 6, 1)))
    assert again.batch_ids == []
    assert "loaded by batch" in again.notes[0], "not an error about a stream outside the request"


def test_loaded_offsets_that_are_gone_from_kafka_are_only_reported(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 8)
    pipeline = declared(broker.bootstrap, topic)
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "all"))
    delete_before(admin, topic, 5)
    given = ask(ledger_url, pipeline, "again", these(pipeline, (0, 6)))
    assert given.batch_ids == []
    assert given.notes == [f"{topic}/0 [0, 6): loaded by batch {batch_id}; say `replace` to load it again"]
    with pytest.raises(FatalError, match=rf"{topic}/0 \[0, 6\): Kafka holds \[5, 8\)"):
        ask(ledger_url, pipeline, "replace", these(pipeline, (0, 6), replace=True))
    assert query(ledger, "SELECT count(*) FROM tideline.batch") == [(1,)]


# One batch -------------------------------------------------------------------------------------------------------


def test_an_open_batch_is_joined_as_it_stands_and_nothing_else_with_it(ledger, ledger_url, pipeline):
    first, second = plan(ledger_url, pipeline, "first")
    attempts.fail(ledger, ledgers.claim(ledger, second), "lost")
    before = (state(ledger, second), ranges_of(ledger, second))
    for replace in (False, True):
        assert ask(ledger_url, pipeline, f"retry {replace}", OneBatch(batch_id=second, replace=replace)).batch_ids == [
            second
        ]
    assert (state(ledger, second), ranges_of(ledger, second)) == before
    finish(ledger, [second])
    with pytest.raises(NeedsOperatorError, match=f"batch {second} is published"):
        flow.advance(ledger, NAME, run("retry True"))
    load(ledger, [first])
    flow.advance(ledger, NAME, run("retry True"))


def test_a_loaded_batch_is_loaded_again_only_on_request(ledger, ledger_url, pipeline):
    first, second = load(ledger, plan(ledger_url, pipeline, "first"))
    given = ask(ledger_url, pipeline, "again", OneBatch(batch_id=first))
    assert given.batch_ids == []
    assert all(f"loaded by batch {first}; say `replace`" in note for note in given.notes)
    assert len(given.notes) == 2
    [replayed] = ask(ledger_url, pipeline, "again", OneBatch(batch_id=first, replace=True), reason="wrong").batch_ids
    assert kinds(ledger, [replayed]) == [("replay", ranges_of(ledger, first))]
    load(ledger, [replayed])
    assert [state(ledger, n)[0] for n in (first, second, replayed)] == ["superseded", "advanced", "advanced"]
    assert query(ledger, "SELECT supersedes FROM tideline.batch WHERE batch_id = %s", replayed) == [(first,)]
    assert {owner for *_, owner in coverage(ledger)} == {replayed, second}


def test_an_abandoned_batch_is_planned_as_far_as_it_is_free(ledger, ledger_url, pipeline):
    first, _ = plan(ledger_url, pipeline, "first")
    with Ledger(ledger_url, actor="ada") as own:
        flow.abandon(own, first, reason="poison")
    [again] = ask(ledger_url, pipeline, "again", OneBatch(batch_id=first)).batch_ids
    assert kinds(ledger, [again]) == [("backfill", ranges_of(ledger, first))]


def test_a_batch_of_another_pipeline_or_of_none_is_refused(ledger, ledger_url, broker, records, pipeline):
    [batch_id, *_] = plan(ledger_url, pipeline, "first")
    with pytest.raises(
        FatalError, match=f"expected batch {batch_id} to be one of this pipeline's, but it belongs to {NAME}"
    ):
        ask(
            ledger_url,
            declared(broker.bootstrap, records, name="another", table="ads.another"),
            "first",
            OneBatch(batch_id=batch_id),
        )
    with pytest.raises(FatalError, match="the ledger does not have it"):
        ask(ledger_url, pipeline, "second", OneBatch(batch_id=10**15))


def test_a_batch_that_kafka_no_longer_holds_is_refused_with_what_is_there(admin, broker, ledger, ledger_url):
    topic = topic_of(admin, broker, 8)
    pipeline = declared(broker.bootstrap, topic)
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "all"))
    delete_before(admin, topic, 5)
    with pytest.raises(FatalError, match=rf"{topic}/0 \[0, 8\): Kafka holds \[5, 8\) of this partition"):
        ask(ledger_url, pipeline, "again", OneBatch(batch_id=batch_id, replace=True))
    delete_before(admin, topic, 8)
    with pytest.raises(FatalError, match="Kafka holds nothing of this partition"):
        ask(ledger_url, pipeline, "again", OneBatch(batch_id=batch_id, replace=True))


# Rejects ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def rejected(ledger, ledger_url, pipeline):
    """Reject offsets 0 and 1 of both partitions, of the first of two batches."""
    first, second = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, first)
    ledgers.stage(ledger, attempt)
    places = [(piece.stream_id, offset) for piece in attempt.ranges for offset in range(2)]
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[stream for stream, _ in places],
            offsets=[offset for _, offset in places],
            steps=["decode"] * 4,
            reasons=["not a Number", "no such field", "not a Number", "no such field"],
            timestamps_ms=[0] * 4,
            keys=[None] * 4,
            values=[b"x"] * 4,
            headers=[None] * 4,
        )
    ledgers.publish(ledger, attempt, written={piece.stream_id: 0 for piece in attempt.ranges})
    load(ledger, [second])
    return first


def test_rejects_are_taken_by_batch_by_reason_or_all_and_once(ledger, ledger_url, pipeline, rejected):
    def taken(batch_ids):
        return query(ledger, "SELECT count(*) FROM tideline.redrive WHERE batch_id = ANY (%s)", batch_ids)[0][0]

    numbers = ask(ledger_url, pipeline, "numbers", KeptRejects(reason_like="not a number")).batch_ids
    assert taken(numbers) == 2
    assert ask(ledger_url, pipeline, "numbers again", KeptRejects(reason_like="not a number")).batch_ids == []
    assert ask(ledger_url, pipeline, "numbers", KeptRejects(reason_like="not a number")).batch_ids == numbers
    assert taken(ask(ledger_url, pipeline, "the rest", KeptRejects(batch_id=rejected)).batch_ids) == 2
    left = ask(ledger_url, pipeline, "nothing left", KeptRejects())
    assert (left.batch_ids, left.notes) == ([], ["no rejects match the request"])
    with Ledger(ledger_url, actor="ada") as own:
        flow.abandon(own, numbers[0], reason="not yet")
    assert taken(ask(ledger_url, pipeline, "all", KeptRejects()).batch_ids) == 2
    assert next_offsets(ledger) == {0: 4, 1: 4}


def test_rejects_of_another_pipeline_are_not_taken(ledger, ledger_url, broker, records, rejected):
    other = declared(broker.bootstrap, records, name="another", table="ads.another")
    assert ask(ledger_url, other, "all", KeptRejects(batch_id=rejected)).batch_ids == []


# Asked twice -----------------------------------------------------------------------------------------------------


def test_a_run_that_is_asked_twice_gets_the_same_whatever_it_asks_for(ledger, ledger_url, pipeline):
    load(ledger, plan(ledger_url, pipeline, "begin"))
    requests = {
        "window": window(2, 9, replace=True),
        "ranges": these(pipeline, (0, 2), replace=True),
        "batch": OneBatch(batch_id=1, replace=True),
    }
    for name, wanted in requests.items():
        first = ask(ledger_url, pipeline, name, wanted).batch_ids
        assert first
        assert ask(ledger_url, pipeline, name, wanted).batch_ids == first
        attempts.fail(ledger, ledgers.claim(ledger, first[0]), "lost")
        assert ask(ledger_url, pipeline, name, wanted).batch_ids == first


def test_a_run_whose_batches_were_abandoned_plans_anew_whatever_it_asks_for(ledger, ledger_url, pipeline):
    load(ledger, plan(ledger_url, pipeline, "begin"))
    for name, wanted in {"window": window(0, 9), "ranges": these(pipeline, (0, 2), replace=True)}.items():
        first = ask(ledger_url, pipeline, name, wanted).batch_ids
        with Ledger(ledger_url, actor="ada") as own:
            for batch_id in first:
                flow.abandon(own, batch_id, reason="poison")
        again = ask(ledger_url, pipeline, name, wanted).batch_ids
        assert not set(first) & set(again)
        assert kinds(ledger, again) == kinds(ledger, first)


@pytest.mark.parametrize("reason", [None, "", "  "])
def test_a_reason_that_is_blank_is_none(ledger, ledger_url, pipeline, reason):
    batch_ids = ask(ledger_url, pipeline, "window", window(0, 9), reason=reason).batch_ids
    assert batch_ids
    assert query(ledger, "SELECT DISTINCT reason FROM tideline.batch") == [(None,)]


def test_every_event_of_a_plan_has_its_reason(ledger, ledger_url, pipeline):
    ask(ledger_url, pipeline, "window", window(0, 9), reason="the invoices of May")
    found = query(ledger, "SELECT action, actor, detail ->> 'reason' FROM tideline.event WHERE batch_id IS NOT NULL")
    assert set(found) == {("plan", "window", "the invoices of May")}


def test_a_plan_that_is_refused_leaves_nothing_behind(ledger, ledger_url, pipeline):
    with pytest.raises(FatalError):
        ask(ledger_url, pipeline, "gone", these(pipeline, (100, 200)))
    with ledger.transaction():
        assert reservations.streams(ledger, NAME) == []
