"""Topics that were created again, or have come back: the decisions of an operator who adopts one."""

from contextlib import suppress
from uuid import uuid4

import pytest

from given_ledger.decisions import WHY, Cut, adopt, decided, stopped
from given_ledger.ledgers import claim, query, state
from given_ledger.planners import NAME, ask, coverage, declared, finish, load, next_offsets, plan, ranges_of, run
from given_topics.topics import created, produce, recreate
from servers.concurrency import together
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, OneBatch, Ranges
from tideline.errors import FatalError, NeedsOperatorError, RetryableError

pytestmark = pytest.mark.topic(partitions=2)


@pytest.fixture
def cut(ledger):
    """Provide a pipeline over logs in memory: a real broker does not truncate logs on request."""
    return Cut(ledger)


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


def test_open_batches_over_the_old_topic_are_abandoned_and_other_topics_replanned(
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
    """It requests records that no run could read, and every run would try."""
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
    """Behind a failed batch is a published one, over the old topic and over another."""
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
    """After so many questions another cluster answers, which has a topic of the same name."""
    left = iter(range(questions))

    def swap(*_):
        if next(left, None) is None and cluster.cluster_id == "c":
            cluster.cluster_id = "elsewhere"
            cluster.create("ads", 1, 1)

    cluster.on_step = swap


@pytest.mark.parametrize("questions", range(1, 5))
@pytest.mark.parametrize("act", ["plan", "adopt", "accept", "write"])
def test_an_address_that_changes_cluster_between_two_queries_adopts_nothing(ledger, cut, act, questions):
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
    """Its offsets belong to other records now."""
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


class Restored(Cut):
    """Brokers that were restored from a copy made before the topic was created again."""

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
def test_a_retired_topic_that_returns_is_named_and_continues_once_it_is_adopted(ledger, noticed):
    restored = Restored(ledger)
    restored.logs[0].append(4)
    if noticed:
        for _ in range(2):
            with pytest.raises(
                NeedsOperatorError, match=rf"the topic that was retired is back(.*\n)*.*tideline adopt-topic {NAME} ads"
            ):
                restored.plan()
        with pytest.raises(NeedsOperatorError, match="is back"):
            flow.advance(ledger, NAME, run("none"))  # a run must not succeed over it
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
