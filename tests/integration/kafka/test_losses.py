"""Unread records that retention has deleted: which offsets an operator accepts as lost, and which not."""

import pytest

from given_ledger import ledgers
from given_ledger.decisions import WHY, accept, decided, stopped
from given_ledger.ledgers import query, state
from given_ledger.planners import NAME, coverage, decide, declared, finish, load, next_offsets, plan, ranges_of
from given_topics.topics import delete_before, produce, recreate
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.errors import FatalError, NeedsOperatorError

pytestmark = pytest.mark.topic(partitions=2)


def test_exactly_the_unread_offsets_that_are_gone_are_recorded_as_lost(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic, batch_records=4)
    produce(broker, topic, 4)
    [first] = load(ledger, plan(ledger_url, pipeline, "first"))
    produce(broker, topic, 8)
    delete_before(admin, topic, 9)
    with pytest.raises(
        NeedsOperatorError, match=rf"offsets \[4, 9\) are gone.*(.*\n)*.*tideline accept-loss {NAME} {topic}/0"
    ):
        plan(ledger_url, pipeline, "second")
    assert accept(ledger_url, pipeline, topic) == [f"{topic}/0: [4, 9) recorded as lost; goes on at 9"]
    assert coverage(ledger) == [(0, 4, first), (4, 9, "lost")]
    assert query(ledger, "SELECT reason, decided_by FROM tideline.coverage WHERE hole = 'lost'") == [(WHY, "ada")]
    assert decided(ledger) == [("accept loss", f"{topic}/0", WHY), ("resume", f"{topic}/0", WHY)]
    assert next_offsets(ledger)[0] == 9
    assert [ranges_of(ledger, n) for n in plan(ledger_url, pipeline, "second")] == [{0: (9, 12)}]


def test_offsets_that_an_open_batch_had_reserved_are_lost_as_well(broker, admin, topic, ledger, ledger_url):
    """The batch's offsets that still exist, and those of other partitions, are planned again."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 10)
    produce(broker, topic, 5, partition=1)
    [batch_id] = plan(ledger_url, pipeline, "first")
    delete_before(admin, topic, 6)
    attempt = ledgers.claim(ledger, batch_id)
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 \[0, 10\): offsets \[0, 6\) are gone"):
        decide(ledger_url, pipeline, lambda own, asked, _: flow.check_source(own, asked, attempt))
    with pytest.raises(FatalError, match="is being written"):
        accept(ledger_url, pipeline, topic, 0)
    ledgers.attempts.fail(ledger, attempt, "unreadable")
    accept(ledger_url, pipeline, topic, 0)
    assert state(ledger, batch_id)[0] == "abandoned"
    assert coverage(ledger) == [(0, 6, "lost")]
    assert [ranges_of(ledger, n) for n in plan(ledger_url, pipeline, "second")] == [{0: (6, 10), 1: (0, 5)}]


def test_what_was_published_before_it_was_deleted_is_not_lost(broker, admin, topic, ledger, ledger_url):
    """The head is not behind it yet, because a batch before it has failed."""
    pipeline = declared(broker.bootstrap, topic, batch_records=3)
    produce(broker, topic, 9)
    first, second, third = plan(ledger_url, pipeline, "first")
    finish(ledger, [second])
    delete_before(admin, topic, 8)
    with pytest.raises(NeedsOperatorError):
        decide(ledger_url, pipeline, lambda own, asked, _: flow.check_source(own, asked, ledgers.claim(own, first)))
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")
    assert accept(ledger_url, pipeline, topic) == [f"{topic}/0: [0, 3), [6, 8) recorded as lost; goes on at 8"]
    assert coverage(ledger) == [(0, 3, "lost"), (3, 6, second), (6, 8, "lost")]
    assert [state(ledger, n)[0] for n in (first, second, third)] == ["abandoned", "advanced", "abandoned"]
    assert next_offsets(ledger)[0] == 8


def test_a_writer_that_was_taken_for_dead_does_not_stop_again_what_goes_on(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 10)
    [batch_id] = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, batch_id)
    delete_before(admin, topic, 6)

    def check():
        with pytest.raises(NeedsOperatorError, match=r"offsets \[0, 6\) are gone"):
            decide(ledger_url, pipeline, lambda own, asked, _: flow.check_source(own, asked, attempt))

    check()
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")
    accept(ledger_url, pipeline, topic)
    check()
    assert stopped(ledger) == []


def test_a_stream_that_stopped_can_be_skipped_instead(broker, admin, topic, ledger, ledger_url):
    """An operator may skip more than what is gone; then nothing is missing any more."""
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    produce(broker, topic, 10)
    delete_before(admin, topic, 4)
    with pytest.raises(NeedsOperatorError):
        plan(ledger_url, pipeline, "first")
    wanted = NamedRange(topic, 0, OffsetRange(0, 7))
    assert decide(ledger_url, pipeline, flow.skip, wanted, reason=WHY) == []
    assert next_offsets(ledger)[0] == 7
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0)]
    assert accept(ledger_url, pipeline, topic) == [f"{topic}/0: nothing is missing now; goes on at 7"]
    [batch_id] = plan(ledger_url, pipeline, "second")
    assert ranges_of(ledger, batch_id) == {0: (7, 10)}


def test_a_stream_whose_cause_has_gone_just_goes_on(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 5)
    plan(ledger_url, pipeline, "first")
    query(
        ledger,
        "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'offsets: a false alarm' WHERE partition = 1",
    )
    assert accept(ledger_url, pipeline, topic, 1) == [f"{topic}/1: nothing is missing now; goes on at 0"]
    assert stopped(ledger) == []
    assert coverage(ledger, 1) == []


def test_only_what_is_named_goes_on(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    for partition in range(2):
        produce(broker, topic, 4, partition=partition)
        delete_before(admin, topic, 2, partition)
    assert len(accept(ledger_url, pipeline, topic, 1)) == 1
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0)]
    assert len(accept(ledger_url, pipeline, topic)) == 1
    assert stopped(ledger) == []


def test_where_nothing_has_stopped_there_is_no_loss_to_accept(broker, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    for wanted in (topic, "other"):
        with pytest.raises(FatalError, match=f"no stream of {wanted} is stopped"):
            accept(ledger_url, pipeline, wanted)


def test_the_stream_of_a_topic_that_was_created_again_has_no_loss_to_accept(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    plan(ledger_url, pipeline, "begin")
    recreate(admin, topic)
    with pytest.raises(FatalError, match=rf"created again(.*\n)*.*tideline adopt-topic {NAME} {topic}"):
        accept(ledger_url, pipeline, topic)
    assert {row[1] for row in query(ledger, "SELECT topic, state::text FROM tideline.stream")} == {"active"}
