"""Truncated logs, including those that have grown again: they stop their streams until an operator accepts it."""

import shutil

import pytest
from confluent_kafka.admin import AdminClient

from given_ledger.decisions import REPLACED, WHY, Cut, accept, replace_from, stopped
from given_ledger.ledgers import state
from given_ledger.planners import NAME, declared, finish, load, next_offsets, plan, ranges_of, run
from given_topics.topics import created, exists, produce, until
from tideline import flow, settings
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Ranges
from tideline.errors import NeedsOperatorError
from tideline_stack.broker import LocalBroker as RealBroker


@pytest.fixture
def cut(ledger):
    """Provide a pipeline over logs in memory: a real broker does not truncate logs on request."""
    return Cut(ledger)


def accept_cut(ledger, cut, end):
    """Load all records, truncate the log, and accept it."""
    load(ledger, cut.plan())
    cut.end_at(end)
    with pytest.raises(NeedsOperatorError):
        cut.plan()
    cut.accept()


def test_a_cut_log_goes_on_when_it_has_passed_the_head(ledger, cut):
    load(ledger, cut.plan())
    cut.end_at(12, 6)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{1: (5, 6)}]
    assert stopped(ledger) == [
        ("ads", 0, "the log ends at 12, before offset 20 that was planned or read: it was cut, or restored from a copy")
    ]
    assert cut.accept() == ["ads/0: the log ends at 12; goes on at 20 once the log has passed it"]
    for end in (12, 15, 20):
        cut.end_at(end, cut.logs[1].end + 1)
        assert [list(ranges_of(ledger, n)) for n in load(ledger, cut.plan())] == [[1]]
        assert next_offsets(ledger)[0] == 20
    cut.end_at(25)
    [batch_id] = load(ledger, cut.plan())
    assert ranges_of(ledger, batch_id) == {0: (20, 25)}
    assert stopped(ledger) == []


@pytest.mark.parametrize("grown", [12, 14], ids=["while it waits", "while it waits and has grown"])
def test_a_second_cut_below_the_accepted_end_is_noticed(ledger, cut, grown):
    accept_cut(ledger, cut, 12)
    cut.end_at(grown)
    assert cut.plan() == []
    cut.end_at(11)
    with pytest.raises(NeedsOperatorError, match="the log ends at 11, before offset 20"):
        cut.plan()


def test_a_cut_is_noticed_again_once_the_log_has_passed_the_head(ledger, cut):
    accept_cut(ledger, cut, 12)
    cut.end_at(20)
    assert cut.plan() == []
    cut.end_at(19)
    with pytest.raises(NeedsOperatorError, match="the log ends at 19, before offset 20"):
        cut.plan()


def test_a_cut_behind_the_head_and_before_what_is_published_is_accepted_once(ledger, cut):
    """Heads that move over published batches do not repair the log."""
    cut.declare(batch_records=15)
    first, second = cut.plan()
    assert [ranges_of(ledger, n) for n in (first, second)] == [{0: (0, 10), 1: (0, 5)}, {0: (10, 20)}]
    finish(ledger, [second])
    cut.end_at(15)
    [healthy] = cut.plan()
    assert ranges_of(ledger, healthy) == {1: (0, 5)}
    assert cut.accept() == ["ads/0: the log ends at 15; goes on at 20 once the log has passed it"]
    load(ledger, cut.plan())
    assert next_offsets(ledger) == {0: 20, 1: 5}
    assert cut.plan() == []
    cut.end_at(22)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{0: (20, 22)}]
    cut.end_at(21)
    with pytest.raises(NeedsOperatorError, match="the log ends at 21, before offset 22"):
        cut.plan()


def test_open_batches_past_the_end_of_a_truncated_log_are_abandoned_and_replanned(ledger, cut):
    load(ledger, cut.plan())
    cut.end_at(30, 9)
    [opened] = cut.plan()
    cut.end_at(25)
    [healthy] = cut.plan()
    assert [state(ledger, n)[0] for n in (opened, healthy)] == ["abandoned", "planned"]
    assert ranges_of(ledger, healthy) == {1: (5, 9)}
    assert cut.accept() == ["ads/0: nothing is missing now; goes on at 20"]
    assert [ranges_of(ledger, n) for n in cut.plan()] == [{1: (5, 9)}, {0: (20, 25)}]


@pytest.mark.parametrize(("offset", "end"), [(12, 20), (12, 40), (19, 21), (0, 20)])
def test_a_log_that_was_cut_and_has_grown_past_the_head_again_is_noticed(ledger, cut, offset, end):
    load(ledger, cut.plan())
    replace_from(cut.logs[0], offset, end=end)
    cut.logs[1].append(1)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{1: (5, 6)}]  # the other streams go on
    [(_, _, found)] = stopped(ledger)
    assert found.startswith(REPLACED.format(offset, 20, offset))
    with pytest.raises(NeedsOperatorError, match=rf"tideline accept-loss {NAME} ads/0"):
        cut.plan()
    [line] = cut.accept()
    assert line == (
        f"ads/0: nothing is missing now; goes on at 20; ads/0 [{offset}, 20) holds other records than before, and the rows loaded from it stay: "
        f"to load its present records, tideline replay {NAME} --range 'ads/0 [{offset}, 20)' --reason ..."
    )
    cut.end_at(end + 1)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{0: (20, end + 1)}]
    asked = Ranges(ranges=(NamedRange("ads", 0, OffsetRange(offset, 20)),), replace=True)
    [again] = load(ledger, flow.plan(ledger, cut.broker, cut.pipeline, run("again"), asked, reason=WHY).batch_ids)
    assert ranges_of(ledger, again) == {0: (offset, 20)}


def test_a_log_truncated_and_grown_again_before_the_read_is_noticed(ledger, cut):
    [opened] = cut.plan()
    replace_from(cut.logs[0], 12, end=30)
    [healthy] = cut.plan()
    assert [state(ledger, n)[0] for n in (opened, healthy)] == ["abandoned", "planned"]
    assert ranges_of(ledger, healthy) == {1: (0, 5)}
    assert stopped(ledger)[0][2].startswith(REPLACED.format(12, 20, 12))
    cut.accept()
    assert [ranges_of(ledger, n) for n in cut.plan()] == [{1: (0, 5)}, {0: (0, 30)}]


def test_an_election_that_lost_nothing_stops_nothing_and_is_looked_into_once(ledger, cut):
    asked = []
    cut.cluster.on_step = lambda _, question: asked.append(question)
    load(ledger, cut.plan())
    for _ in range(2):
        cut.logs[0].elect()
        assert cut.plan() == cut.plan() == []
    assert asked.count("records_from") == 2
    cut.end_at(25)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{0: (20, 25)}]


def test_offsets_without_records_before_the_head_do_not_hide_a_cut(ledger, cut):
    """Transaction markers, and records that compaction has removed: the newest record before them decides."""
    cut.declare()
    for log in cut.logs:
        for _ in range(7):
            log.append_gap()
    load(ledger, cut.plan())
    cut.logs[0].elect()
    assert cut.plan() == []
    cut.logs[0].cut(15)
    cut.logs[0].append(2)
    for _ in range(20):
        cut.logs[0].append_gap()
    with pytest.raises(NeedsOperatorError, match=r"offsets \[15, 27\) may hold other records"):
        cut.plan()


def test_a_log_whose_cut_was_accepted_may_grow_under_other_leaders(ledger, cut):
    accept_cut(ledger, cut, 12)
    for end in (14, 17, 20, 24):
        cut.end_at(end)  # elects a leader each time
        load(ledger, cut.plan())
        assert stopped(ledger) == []
    assert next_offsets(ledger)[0] == 24
    replace_from(cut.logs[0], 22, end=30)
    with pytest.raises(NeedsOperatorError, match=r"offsets \[22, 24\)"):
        cut.plan()


@pytest.fixture
def failing_broker(tmp_path):
    """Start a broker for this test, whose disk may be lost."""
    server = RealBroker(tmp_path / "kafka", settings.PROJECT / ".local" / "jars" / "kafka")
    server.start()
    yield server
    server.stop()


def test_a_broker_that_lost_its_disk_and_was_filled_again_is_noticed(tmp_path, failing_broker, ledger, ledger_url):
    """A real broker comes back with an empty log for the same topic id, and producers were faster than the next run."""
    topic = created(AdminClient({"bootstrap.servers": failing_broker.bootstrap}), "ads", partitions=2)
    pipeline = declared(failing_broker.bootstrap, topic)
    produce(failing_broker, topic, 10)
    produce(failing_broker, topic, 4, partition=1)
    load(ledger, plan(ledger_url, pipeline, "first"))
    failing_broker.stop()
    shutil.rmtree(tmp_path / "kafka" / "data" / f"{topic}-0")
    failing_broker.start()
    until(lambda: exists(AdminClient({"bootstrap.servers": failing_broker.bootstrap}), topic))
    produce(failing_broker, topic, 25)
    produce(failing_broker, topic, 1, partition=1)
    [healthy] = load(ledger, plan(ledger_url, pipeline, "second"))
    assert ranges_of(ledger, healthy) == {1: (4, 5)}
    [(_, partition, found)] = stopped(ledger)
    assert (partition, found.startswith(REPLACED.format(0, 10, 0))) == (0, True)
    [line] = accept(ledger_url, pipeline, topic)
    assert f"tideline replay {NAME} --range '{topic}/0 [0, 10)'" in line
    assert [ranges_of(ledger, n) for n in load(ledger, plan(ledger_url, pipeline, "third"))] == [{0: (10, 25)}]
