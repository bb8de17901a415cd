"""The brokers in memory give the same answers as a real one for the same topics."""

from datetime import UTC, datetime, timedelta
from itertools import product
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from faults.memory import Cluster, Log, MemoryBroker, transaction
from given_topics import topics
from given_topics.topics import MINUTE, T0, at
from tideline.declaration import Source
from tideline.errors import FatalError, RetryableError
from tideline.kafka.broker import Broker

GONE = "gone_before"
YEAR_1970 = (datetime(1970, 1, 2, tzinfo=UTC) - T0) // MINUTE
YEAR_2099 = (datetime(2099, 1, 1, tzinfo=UTC) - T0) // MINUTE


class Both:
    """Topics on a real broker and the same topics in memory: each change is made to both."""

    def __init__(self, broker, admin):
        self.broker, self.admin = broker, admin
        self.mark = uuid4().hex[:8]
        self.cluster = Cluster(cluster_id=admin.describe_cluster().result().cluster_id)
        self.names = []

    def create(self, *, partitions=1, name=None, **settings):
        """Create a topic with empty logs, or replace the one of that name."""
        name = name or f"both_{self.mark}_{len(self.names)}"
        if name in self.cluster.topics:
            self.delete(name)
        topics.created(self.admin, name, partitions, **{"retention.ms": "-1", **settings})
        [facts] = Broker(topics.source(self.broker.bootstrap, name)).topic_facts()
        compacted = "compact" in settings.get("cleanup.policy", "")
        self.cluster.create(
            name,
            *[0] * partitions,
            topic_id=facts.topic_id,
            compacted=compacted,
            retention_ms=None if "retention.ms" not in settings else int(settings["retention.ms"]),
        )
        self.names += [] if name in self.names else [name]
        return name

    def delete(self, name):
        self.admin.delete_topics([name])[name].result()
        topics.until(lambda: not topics.exists(self.admin, name))
        self.cluster.delete(name)

    def produce(self, name, *minutes, partition=0):
        for minute in minutes:
            when = at(minute)
            milliseconds = int(when.timestamp() * 1000)
            topics.produce(self.broker, name, partition=partition, timestamp=milliseconds)
            self.cluster.topics[name].logs[partition].append(at=when)

    def delete_before(self, name, offset, partition=0):
        place = TopicPartition(name, partition, offset)
        self.admin.delete_records([place])[place].result()
        self.cluster.topics[name].logs[partition].delete_before(offset)

    def transaction(self, name, partitions, count=1):
        """Open a transaction on both; the returned function ends both."""
        producer = topics.transaction(self.broker, name, partitions, count)
        mine = transaction(self.cluster.topics[name], partitions, count, at=datetime.now(UTC))

        def end(*, commits):
            (producer.commit_transaction if commits else producer.abort_transaction)(20)
            (mine.commit if commits else mine.abort)(at=datetime.now(UTC))

        return end

    def sources(self):
        """Return sources: topics by name, including one that never existed, and by a pattern."""
        yield topics.source(self.broker.bootstrap, *self.names, f"{GONE}_{self.mark}")
        pattern = {"bootstrap_servers": self.broker.bootstrap, "topic_pattern": f"^both_{self.mark}_.*$"}
        yield Source.model_validate({**pattern, "value": {"format": "bytes"}}, context="both")

    def agree(self, *times, stamped=True):
        """Compare all answers of both, and retry until a moment after a change they agree.

        `stamped`: each record has the same timestamp in both.
        """
        for source in self.sources():
            real, memory = Broker(source), MemoryBroker(self.cluster, source)
            topics.until(lambda real=real, memory=memory: real.topic_facts() == memory.topic_facts())
            found = real.topic_facts()
            assert real.cluster_id() == memory.cluster_id()
            known = [*self.names, GONE]
            assert real.missing(found, known).keys() == memory.missing(found, known).keys()
            for facts in found:
                for when, committed in product(times, (True, False)):
                    asked = {(facts.topic, partition.partition): when for partition in facts.partitions}
                    said = [brokers.offsets_at(asked, committed=committed) for brokers in (real, memory)]
                    if not stamped:
                        said = [{place: found.offset for place, found in answer.items()} for answer in said]
                    assert said[0] == said[1], when

    def agree_on_records(self, name, *, stamped=True):
        """Compare the records from each offset on, also from behind the last one."""
        [facts] = Broker(topics.source(self.broker.bootstrap, name)).topic_facts()
        source = next(self.sources())
        for partition in facts.partitions:
            last = {True: partition.end, False: partition.end + partition.n_unstable}
            for committed, offset in ((way, n) for way in last for n in range(partition.log_start, last[way] + 1)):
                asked = {(name, partition.partition): offset}
                said = [
                    brokers.records_from(asked, 3, committed=committed)
                    for brokers in (Broker(source), MemoryBroker(self.cluster, source))
                ]
                if not stamped:
                    said = [[record.offset for record in records[name, partition.partition]] for records in said]
                assert said[0] == said[1], offset


@pytest.fixture
def both(broker, admin):
    return Both(broker, admin)


def test_what_retention_deletes_moves_the_start_and_never_the_end(both):
    name = both.create(partitions=3)
    both.produce(name, *range(6))
    both.produce(name, *range(4), partition=1)
    both.agree()
    both.delete_before(name, 4)
    both.delete_before(name, 4, partition=1)
    both.agree(at(0), at(4), at(5), at(6))


def test_the_first_record_as_late_as_a_time_is_found_in_any_order_of_the_others(both):
    name = both.create(partitions=2)
    both.produce(name, 3, 1, 7, 7, 2, 9)
    both.agree(*(at(0) + half * MINUTE / 2 for half in range(20)), T0 - timedelta(days=30_000))
    both.delete_before(name, 3)
    both.agree(*map(at, range(10)))


def test_records_of_1970_and_of_2099_are_found_and_looked_at_as_any_others(both):
    name = both.create(partitions=2, **{"message.timestamp.after.max.ms": str(2**62)})
    both.produce(name, 3, YEAR_2099, 4, 1, YEAR_2099 + 1, YEAR_1970, 5, 5)
    both.agree(at(0), at(4), at(5), at(6), at(YEAR_2099), at(YEAR_2099 + 1), at(YEAR_2099 + 2))
    both.agree_on_records(name)
    both.delete_before(name, 2)
    both.agree(at(4), at(YEAR_2099))
    both.agree_on_records(name)


def test_nothing_behind_an_open_transaction_may_be_read_and_its_end_takes_an_offset(both):
    name = both.create(partitions=3)
    for partition in range(3):
        both.produce(name, 0, 1, partition=partition)
    first = both.transaction(name, [0, 1], count=2)
    both.produce(name, 5, partition=1)
    second = both.transaction(name, [1, 2])
    times = (
        at(0),
        at(1),
        at(2),
        at(5),
        at(6),
        datetime.now(UTC) - timedelta(hours=1),
        datetime.now(UTC) + timedelta(hours=1),
    )
    both.agree(*times, stamped=False)
    both.agree_on_records(name, stamped=False)
    first(commits=True)
    both.agree(*times, stamped=False)
    both.agree_on_records(name, stamped=False)
    second(commits=False)
    both.agree(*times, stamped=False)
    both.agree_on_records(name, stamped=False)


def test_topics_grow_go_and_come_again_under_another_id(both):
    one, other = both.create(), both.create(partitions=2)
    both.produce(one, 0, 1)
    both.agree(at(1))
    topics.grown(both.admin, one, 3)
    both.cluster.topics[one].logs += [Log(), Log()]
    both.agree(at(1))
    both.delete(other)
    both.agree()
    before = both.cluster.topics[one].topic_id
    both.create(name=one)
    both.agree(at(1))
    assert both.cluster.topics[one].topic_id != before
    both.create(name=other)
    both.agree()


def test_the_settings_of_a_topic_are_returned(both):
    both.create(**{"cleanup.policy": "compact"})
    both.create(**{"cleanup.policy": "delete", "retention.ms": "90000"})
    both.create(**{"cleanup.policy": "compact,delete", "retention.ms": "90000"})
    both.agree()


def test_heads_are_shown_as_far_as_there_is_something_to_show_them_of(both):
    name = both.create(partitions=2)
    group = f"tideline.{both.mark}"
    # Groups have no coordinator until the first one has been created.
    topics.until(lambda: refusal(pair(both)[0].commit_heads, group, {(name, 0): 0}) is None)
    for heads in (
        {(name, 0): 7, (name, 1): 2},
        {(name, 1): 1},
        {(GONE, 0): 5, (name, 0): 9},
        {(name, 5): 3, (name, 0): 4},
        {},
    ):
        said = [refusal(brokers.commit_heads, group, heads) for brokers in pair(both)]
        assert said[0] == said[1], heads
        assert shown(both.admin, group) == both.cluster.heads[group]


def test_a_query_for_what_does_not_exist_is_answered_so(both):
    name = both.create()
    for places in ([(name, 0), (name, 3)], [(GONE, 0)]):
        said = [refusal(brokers.offsets_at, dict.fromkeys(places, T0)) for brokers in pair(both)]
        assert said[0] == said[1] is not None


def pair(both):
    source = next(both.sources())
    return Broker(source), MemoryBroker(both.cluster, source)


def refusal(call, *asked):
    try:
        call(*asked)
    except (FatalError, RetryableError) as error:
        return type(error)
    return None


def shown(admin, group):
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result().topic_partitions
    return {(partition.topic, partition.partition): partition.offset for partition in found}
