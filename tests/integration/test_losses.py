"""Streams that stop, and what a person may decide about them: to accept a loss, or to adopt a topic that was created again."""

import shutil
from contextlib import suppress
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import ledgers
from asking import query, state
from faults.memory import Cluster, MemoryBroker
from ledgers import claim
from planners import NAME, ask, coverage, decide, declared, finish, load, next_offsets, plan, ranges_of, run
from racing import together
from tideline import flow, settings
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, OneBatch, Ranges
from tideline.errors import FatalError, NeedsOperatorError, RetryableError
from tideline.ledger import heads
from tideline.ledger.connection import Ledger
from tideline.local.broker import Broker as RealBroker
from topics import created, exists, produce, recreate, until

WHY = "the source has them no longer"


@pytest.fixture
def topic(admin):
    return created(admin, f"losses_{uuid4().hex[:8]}", partitions=2)


def delete_before(admin, topic, offset, partition=0):
    admin.delete_records([TopicPartition(topic, partition, offset)])[TopicPartition(topic, partition)].result()


def accept(url, pipeline, topic, partition=None):
    return decide(url, pipeline, flow.accept_loss, topic, partition, reason=WHY)


def adopt(url, pipeline, topic):
    return decide(url, pipeline, flow.adopt_topic, topic, reason=WHY)


def stopped(ledger):
    return query(
        ledger, "SELECT topic, partition, stopped_because FROM tideline.stream WHERE state = 'stopped' ORDER BY 1, 2"
    )


def decided(ledger):
    """(action, topic and partition, reason) of what a person's decisions did, in order."""
    return query(
        ledger,
        "SELECT action, topic || '/' || partition, detail ->> 'reason' FROM tideline.event LEFT JOIN tideline.stream USING (stream_id)"
        " WHERE actor = 'ada' AND action NOT IN ('move head', 'stop') ORDER BY event_id",
    )


# accept_loss, retention ------------------------------------------------------------------------------------------


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
    """Those of it that are there, and those of the other partitions, are planned again."""
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
    """The head does not stand behind it yet, because a batch before it has failed."""
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
    """More than what is gone, if a person wants that; then nothing is missing any more."""
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


# accept_loss, a log that was cut ---------------------------------------------------------------------------------


@pytest.fixture
def cut(ledger):
    """A pipeline over logs in memory: real ones are not cut at will."""
    return Cut(ledger)


class Cut:
    """What is done to a ledger while its logs are cut."""

    def __init__(self, ledger):
        self.ledger, self.cluster, self.turn = ledger, Cluster(), 0
        self.logs = self.cluster.create("ads", 20, 5).logs
        self.declare()

    def declare(self, **limits):
        self.pipeline = declared("nowhere:9092", "ads", **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def end_at(self, *ends):
        """The logs, from the first on, are cut or grow until they end there."""
        for log, end in zip(self.logs, ends, strict=False):
            log.cut(end)
            log.append(end - log.end)

    def plan(self):
        self.turn += 1
        return flow.plan(self.ledger, self.broker, self.pipeline, run(f"cut {self.turn}"), NewRecords()).batch_ids

    def accept(self):
        return flow.accept_loss(self.ledger, self.broker, self.pipeline, "ads", 0, reason=WHY)


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
    load(ledger, cut.plan())
    cut.end_at(12)
    with pytest.raises(NeedsOperatorError):
        cut.plan()
    cut.accept()
    cut.end_at(grown)
    assert cut.plan() == []
    cut.end_at(11)
    with pytest.raises(NeedsOperatorError, match="the log ends at 11, before offset 20"):
        cut.plan()


def test_a_cut_is_noticed_again_once_the_log_has_passed_the_head(ledger, cut):
    load(ledger, cut.plan())
    cut.end_at(12)
    with pytest.raises(NeedsOperatorError):
        cut.plan()
    cut.accept()
    cut.end_at(20)
    assert cut.plan() == []
    cut.end_at(19)
    with pytest.raises(NeedsOperatorError, match="the log ends at 19, before offset 20"):
        cut.plan()


def test_a_cut_behind_the_head_and_before_what_is_published_is_accepted_once(ledger, cut):
    """Heads that move over what is published do not make the log whole."""
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


def test_open_batches_behind_the_end_of_a_cut_log_are_abandoned_and_planned_again_when_it_grows(ledger, cut):
    load(ledger, cut.plan())
    cut.end_at(30, 9)
    [opened] = cut.plan()
    cut.end_at(25)
    [healthy] = cut.plan()
    assert [state(ledger, n)[0] for n in (opened, healthy)] == ["abandoned", "planned"]
    assert ranges_of(ledger, healthy) == {1: (5, 9)}
    assert cut.accept() == ["ads/0: nothing is missing now; goes on at 20"]
    assert [ranges_of(ledger, n) for n in cut.plan()] == [{1: (5, 9)}, {0: (20, 25)}]


# logs that were cut and have grown again -------------------------------------------------------------------------

REPLACED = "offsets [{}, {}) may hold other records than those that were planned or read: the log was cut at {}"


def replace_from(log, offset, *, end):
    """The log loses what stands there, and has grown to `end` before anybody looks."""
    log.cut(offset)
    log.append(end - log.end)


@pytest.mark.parametrize(("offset", "end"), [(12, 20), (12, 40), (19, 21), (0, 20)])
def test_a_log_that_was_cut_and_has_grown_past_the_head_again_is_noticed(ledger, cut, offset, end):
    load(ledger, cut.plan())
    replace_from(cut.logs[0], offset, end=end)
    cut.logs[1].append(1)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{1: (5, 6)}]  # the others go on
    [(_, _, found)] = stopped(ledger)
    assert found.startswith(REPLACED.format(offset, 20, offset))
    with pytest.raises(NeedsOperatorError, match=rf"tideline accept-loss {NAME} ads/0"):
        cut.plan()
    [told] = cut.accept()
    assert told == (
        f"ads/0: nothing is missing now; goes on at 20; ads/0 [{offset}, 20) holds other records than it did, and what is loaded of it stays: "
        f"to load what stands there now, tideline replay {NAME} --range 'ads/0 [{offset}, 20)' --reason ..."
    )
    cut.end_at(end + 1)
    assert [ranges_of(ledger, n) for n in load(ledger, cut.plan())] == [{0: (20, end + 1)}]
    asked = Ranges(ranges=(NamedRange("ads", 0, OffsetRange(offset, 20)),), replace=True)
    [again] = load(ledger, flow.plan(ledger, cut.broker, cut.pipeline, run("again"), asked, reason=WHY).batch_ids)
    assert ranges_of(ledger, again) == {0: (offset, 20)}


def test_a_cut_behind_planned_offsets_that_grew_again_before_they_were_read_is_noticed(ledger, cut):
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
    """Markers of transactions, and what was compacted: the newest record before them tells."""
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
    load(ledger, cut.plan())
    cut.end_at(12)
    with pytest.raises(NeedsOperatorError):
        cut.plan()
    cut.accept()
    for end in (14, 17, 20, 24):
        cut.end_at(end)  # elects one each time
        load(ledger, cut.plan())
        assert stopped(ledger) == []
    assert next_offsets(ledger)[0] == 24
    replace_from(cut.logs[0], 22, end=30)
    with pytest.raises(NeedsOperatorError, match=r"offsets \[22, 24\)"):
        cut.plan()


# adopt_topic -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [3, 15], ids=["fewer records", "more records"])
def test_a_topic_that_was_created_again_is_followed_from_its_first_offset(
    broker, admin, topic, ledger, ledger_url, *, records
):
    pipeline = declared(broker.bootstrap, topic, start="latest")
    plan(ledger_url, pipeline, "begin")
    produce(broker, topic, 10)
    [old] = load(ledger, plan(ledger_url, pipeline, "first"))
    before = query(ledger, "SELECT stream_id, next_offset FROM tideline.stream ORDER BY stream_id")
    recreate(admin, topic)
    produce(broker, topic, records)
    with pytest.raises(NeedsOperatorError, match=rf"created again(.*\n)*.*tideline adopt-topic {NAME} {topic}"):
        plan(ledger_url, pipeline, "second")
    said = adopt(ledger_url, pipeline, topic)
    assert [line.split(" of topic id ")[0] + line.split(":")[1] for line in said] == [
        f"{topic}/0 retired at 10",
        f"{topic}/1 retired at 0",
        f"{topic}/0 begins at 0",
    ]
    retired = query(
        ledger, "SELECT stream_id, next_offset FROM tideline.stream WHERE state = 'retired' ORDER BY stream_id"
    )
    assert retired == before
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "second"))
    assert ranges_of(ledger, batch_id) == {0: (0, records)}
    assert {owner for *_, owner in coverage(ledger)} == {old, batch_id}
    flow.advance(ledger, NAME, run("second"))
    assert {(action, why) for action, _, why in decided(ledger)} == {("retire", WHY), ("start", WHY)}


def test_open_batches_over_the_old_topic_go_and_the_other_topics_of_them_are_planned_again(
    broker, admin, topic, ledger, ledger_url
):
    other = created(admin, f"other_{uuid4().hex[:8]}")
    pipeline = declared(broker.bootstrap, topic, other)
    produce(broker, topic, 4)
    produce(broker, other, 6)
    [opened] = plan(ledger_url, pipeline, "first")
    recreate(admin, topic)
    adopt(ledger_url, pipeline, topic)
    assert state(ledger, opened)[0] == "abandoned"
    [again] = plan(ledger_url, pipeline, "second")
    assert query(
        ledger,
        "SELECT topic FROM tideline.batch_range JOIN tideline.stream USING (stream_id) WHERE batch_id = %s",
        again,
    ) == [(other,)]


def test_a_replay_that_is_open_over_the_old_topic_goes_as_well(broker, admin, topic, ledger, ledger_url):
    """Nothing could ever read what it wants, and every run would try."""
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 4)
    load(ledger, plan(ledger_url, pipeline, "first"))
    wanted = Ranges(ranges=(NamedRange(topic, 0, OffsetRange(0, 4)),), replace=True)
    [replayed] = ask(ledger_url, pipeline, "replay", wanted).batch_ids
    recreate(admin, topic)
    adopt(ledger_url, pipeline, topic)
    assert state(ledger, replayed)[0] == "abandoned"
    assert plan(ledger_url, pipeline, "second") == []


def test_what_was_published_of_the_old_topic_does_not_hold_the_heads_of_the_others(
    broker, admin, topic, ledger, ledger_url
):
    """Behind a batch that failed stands a published one, over the old topic and over another."""
    other = created(admin, f"other_{uuid4().hex[:8]}")
    pipeline = declared(broker.bootstrap, topic, other, batch_records=8)
    produce(broker, topic, 8)
    produce(broker, other, 8)
    first, second = plan(ledger_url, pipeline, "first")
    finish(ledger, [second])
    recreate(admin, topic)
    adopt(ledger_url, pipeline, topic)
    assert state(ledger, first)[0] == "abandoned"
    [late] = plan(ledger_url, pipeline, "second")
    finish(ledger, [late])
    assert flow.advance(ledger, NAME, run("second")) == [second, late]
    assert query(ledger, "SELECT next_offset FROM tideline.stream WHERE topic = %s", other) == [(8,)]


def test_a_partition_that_is_gone_retires_alone(ledger, cut):
    load(ledger, cut.plan())
    cut.end_at(25)
    cut.logs.pop()
    load(ledger, cut.plan())
    assert [(row[1], row[2].partition(":")[0]) for row in stopped(ledger)] == [(1, "the partition is gone")]
    with pytest.raises(FatalError, match=r"the partition is gone(.*\n)*.*tideline adopt-topic"):
        flow.accept_loss(ledger, cut.broker, cut.pipeline, "ads", 1, reason=WHY)
    [said] = flow.adopt_topic(ledger, cut.broker, cut.pipeline, "ads", reason=WHY)
    assert said.startswith("ads/1 of topic id")
    assert next_offsets(ledger) == {0: 25}
    cut.end_at(30)
    assert [ranges_of(ledger, n) for n in cut.plan()] == [{0: (25, 30)}]


def test_nothing_is_decided_on_the_word_of_another_cluster(ledger, cut):
    [opened] = cut.plan()
    cut.cluster.cluster_id = "elsewhere"
    cut.cluster.create("ads", 1, 1)
    before = query(ledger, "SELECT count(*) FROM tideline.event")
    for verb, asked in (
        (flow.skip, (NamedRange("ads", 0, OffsetRange(0, 1)),)),
        (flow.accept_loss, ("ads", None)),
        (flow.adopt_topic, ("ads",)),
    ):
        with pytest.raises(
            NeedsOperatorError, match="expected cluster c at the declared address, found cluster elsewhere"
        ):
            verb(ledger, cut.broker, cut.pipeline, *asked, reason=WHY)
    assert query(ledger, "SELECT count(*) FROM tideline.event") == before
    assert state(ledger, opened)[0] == "planned"


def leads_elsewhere_after(cluster, questions):
    """From then on another cluster answers, which has a topic of the same name."""
    left = iter(range(questions))

    def swap(*_):
        if next(left, None) is None and cluster.cluster_id == "c":
            cluster.cluster_id = "elsewhere"
            cluster.create("ads", 1, 1)

    cluster.on_step = swap


@pytest.mark.parametrize("questions", range(1, 5))
@pytest.mark.parametrize("act", ["plan", "adopt", "accept", "write"])
def test_an_address_that_leads_elsewhere_between_two_questions_stops_and_adopts_nothing(ledger, cut, act, questions):
    [opened] = cut.plan()
    attempt = claim(ledger, opened) if act == "write" else None
    cut.end_at(22)
    leads_elsewhere_after(cut.cluster, questions)
    acts = {
        "plan": cut.plan,
        "accept": cut.accept,
        "adopt": lambda: flow.adopt_topic(ledger, cut.broker, cut.pipeline, "ads", reason=WHY),
        "write": lambda: flow.check_source(ledger, cut.broker, attempt),
    }
    with suppress(FatalError, NeedsOperatorError, RetryableError):
        acts[act]()
    assert query(ledger, "SELECT DISTINCT cluster_id, state::text FROM tideline.stream") == [("c", "active")]


def test_a_batch_of_a_topic_that_was_adopted_since_cannot_be_replayed(ledger, cut):
    """Its offsets mean other records now."""
    [batch_id] = load(ledger, cut.plan())
    cut.cluster.create("ads", 50, 50)
    flow.adopt_topic(ledger, cut.broker, cut.pipeline, "ads", reason=WHY)
    with pytest.raises(
        FatalError, match=r"ads/0 \[0, 20\): the ledger follows topic id .*1, which the brokers do not have"
    ):
        flow.plan(ledger, cut.broker, cut.pipeline, run("again"), OneBatch(batch_id=batch_id, replace=True))
    assert [ranges_of(ledger, n) for n in cut.plan()] == [{0: (0, 50), 1: (0, 50)}]


def test_a_topic_is_adopted_once_and_only_where_it_is_another_one(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 4)
    [opened] = plan(ledger_url, pipeline, "begin")
    with pytest.raises(FatalError, match="there is nothing to adopt"):
        adopt(ledger_url, pipeline, topic)
    assert state(ledger, opened)[0] == "planned"
    recreate(admin, topic)
    said = together(*[lambda: adopt_or_not(ledger_url, pipeline, topic)] * 3)
    assert sorted(said) == ["adopted", "there is nothing to adopt", "there is nothing to adopt"]
    assert query(ledger, "SELECT state::text, count(*) FROM tideline.stream GROUP BY 1 ORDER BY 1") == [
        ("active", 1),
        ("retired", 2),
    ]
    with pytest.raises(FatalError, match="there is nothing to adopt"):
        adopt(ledger_url, pipeline, topic)
    with pytest.raises(FatalError, match="is not there, or the declaration does not name it"):
        adopt(ledger_url, pipeline, "elsewhere")


def adopt_or_not(url, pipeline, topic):
    try:
        adopt(url, pipeline, topic)
    except FatalError as error:
        return error.problem.rpartition(": ")[2]
    return "adopted"


# Stopped streams beside healthy ones -----------------------------------------------------------------------------


def test_a_batch_with_a_stopped_stream_is_left_to_whoever_writes_it(broker, admin, topic, ledger, ledger_url):
    pipeline = declared(broker.bootstrap, topic)
    produce(broker, topic, 4)
    produce(broker, topic, 3, partition=1)
    [batch_id] = plan(ledger_url, pipeline, "first")
    attempt = ledgers.claim(ledger, batch_id)
    query(ledger, "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'offsets' WHERE partition = 0")
    assert plan(ledger_url, pipeline, "second") == [batch_id]
    ledgers.attempts.fail(ledger, attempt, "unreadable")
    [healthy] = plan(ledger_url, pipeline, "third")
    assert state(ledger, batch_id)[0] == "abandoned"
    assert ranges_of(ledger, healthy) == {1: (0, 3)}
    said = query(ledger, "SELECT actor, detail ->> 'reason' FROM tideline.event WHERE action = 'abandon'")
    assert said == [("third", "a stream of it has stopped; the others are planned again")]


def test_a_plan_does_not_wait_for_a_batch_with_a_stopped_stream_that_is_being_published(ledger, ledger_url, cut):
    [batch_id] = cut.plan()
    ledgers.claim(ledger, batch_id)
    query(ledger, "UPDATE tideline.stream SET state = 'stopped', stopped_because = 'offsets' WHERE partition = 0")
    with Ledger(ledger_url, actor="publisher") as other, other.transaction():
        other.rows("lock_batch", batch_id=batch_id)
        query(ledger, "SET lock_timeout = '500ms'")
        assert cut.plan() == [batch_id]


def test_a_stopped_stream_of_a_topic_that_is_declared_no_longer_rests_until_it_is_named_again(
    broker, admin, topic, ledger, ledger_url
):
    other = created(admin, f"other_{uuid4().hex[:8]}")
    both = declared(broker.bootstrap, topic, other)
    plan(ledger_url, both, "begin")
    produce(broker, topic, 4)
    produce(broker, other, 4)
    delete_before(admin, topic, 2)
    load(ledger, plan(ledger_url, both, "first"))
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0)]
    alone = declared(broker.bootstrap, other)
    assert plan(ledger_url, alone, "second") == []
    assert stopped(ledger) == []
    flow.advance(ledger, NAME, run("second"))
    with pytest.raises(NeedsOperatorError, match=r"offsets \[0, 2\) are gone"):
        plan(ledger_url, both, "third")


def test_a_known_topic_that_is_missing_stops_its_streams_and_an_unknown_one_is_a_mistake(
    broker, admin, topic, ledger, ledger_url
):
    other = created(admin, f"other_{uuid4().hex[:8]}")
    pipeline = declared(broker.bootstrap, topic, other)
    plan(ledger_url, pipeline, "begin")
    admin.delete_topics([topic])[topic].result()
    until(lambda: not exists(admin, topic))
    produce(broker, other, 4)
    with pytest.raises(FatalError, match="never_there"):
        plan(ledger_url, declared(broker.bootstrap, topic, other, "never_there"), "mistaken")
    assert stopped(ledger) == []
    [batch_id] = load(ledger, plan(ledger_url, pipeline, "first"))
    assert [row[:2] for row in stopped(ledger)] == [(topic, 0), (topic, 1)]
    with pytest.raises(NeedsOperatorError, match=f"{topic}/0 at offset 0: the topic is gone"):
        flow.advance(ledger, NAME, run("first"))
    assert state(ledger, batch_id)[0] == "advanced"
    with pytest.raises(FatalError, match=f"{topic} is not there"):
        adopt(ledger_url, pipeline, topic)
    created(admin, topic)
    adopt(ledger_url, pipeline, topic)
    assert heads.stopped_streams(ledger, NAME) == []


@pytest.fixture
def failing_broker(tmp_path):
    """A broker of the test's own, whose disk may be lost."""
    server = RealBroker(tmp_path / "kafka", settings.PROJECT / ".local" / "jars" / "kafka")
    server.start()
    yield server
    server.stop()


def test_a_broker_that_lost_its_disk_and_was_filled_again_is_noticed(tmp_path, failing_broker, ledger, ledger_url):
    """A real broker comes back with an empty log for the same topic id, and producers were quicker than the next run."""
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
    [told] = accept(ledger_url, pipeline, topic)
    assert f"tideline replay {NAME} --range '{topic}/0 [0, 10)'" in told
    assert [ranges_of(ledger, n) for n in load(ledger, plan(ledger_url, pipeline, "third"))] == [{0: (10, 25)}]


# a retired topic that is back ------------------------------------------------------------------------------------


class Restored(Cut):
    """Brokers that were restored from a copy of before the topic was created again."""

    def __init__(self, ledger):
        super().__init__(ledger)
        load(ledger, self.plan())
        self.first = self.cluster.topics["ads"]
        self.cluster.create("ads", 3, 3)
        with pytest.raises(NeedsOperatorError):
            self.plan()
        self.adopt()
        load(ledger, self.plan())
        self.cluster.topics["ads"] = self.first

    def adopt(self):
        return flow.adopt_topic(self.ledger, self.broker, self.pipeline, "ads", reason=WHY)


def states(ledger):
    return query(ledger, "SELECT state::text, next_offset FROM tideline.stream ORDER BY stream_id")


@pytest.mark.parametrize("noticed", [True, False], ids=["after a plan", "at once"])
def test_a_retired_topic_that_is_back_is_named_and_goes_on_where_it_stood_once_it_is_adopted(ledger, noticed):
    restored = Restored(ledger)
    restored.logs[0].append(4)
    if noticed:
        for _ in range(2):
            with pytest.raises(
                NeedsOperatorError, match=rf"the topic that was retired is back(.*\n)*.*tideline adopt-topic {NAME} ads"
            ):
                restored.plan()
        with pytest.raises(NeedsOperatorError, match="is back"):
            flow.advance(ledger, NAME, run("none"))  # no run is green over it
    said = [line.split(" of topic id ")[0] + line.split(":")[1] for line in restored.adopt()]
    assert said == ["ads/0 retired at 3", "ads/1 retired at 3", "ads/0 goes on at 20", "ads/1 goes on at 5"]
    assert states(ledger) == [("active", 20), ("active", 5), ("retired", 3), ("retired", 3)]
    assert [ranges_of(ledger, n) for n in load(ledger, restored.plan())] == [{0: (20, 24)}]
    with pytest.raises(FatalError, match="there is nothing to adopt"):
        restored.adopt()


def test_what_the_restored_log_lacks_stops_the_stream_that_goes_on(ledger):
    restored = Restored(ledger)
    restored.logs[0].cut(15)
    restored.adopt()
    with pytest.raises(NeedsOperatorError, match="the log ends at 15, before offset 20"):
        restored.plan()
