"""What brokers answer for a moment, while a partition is added or a leader moves, leaves no call as an error."""

from concurrent.futures import Future
from datetime import UTC, datetime

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions

from given_topics import topics
from tideline.errors import RetryableError
from tideline.kafka import passing
from tideline.kafka.broker import Broker
from tideline.kafka.records import explained

WHEN = datetime(2026, 1, 2, tzinfo=UTC)
OF_A_MOMENT = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.OFFSET_NOT_AVAILABLE,
)


class Moving:
    """An admin client of a real broker whose first answers are those of a partition without a leader.

    Args:
        admin: The client.
        code: The error code of these answers.
        count: How many of them there are.
    """

    def __init__(self, admin, code, count):
        self._admin, self._code, self.left = admin, code, count

    def __getattr__(self, name):
        return getattr(self._admin, name)

    def list_offsets(self, specs, **named):
        return self._refused(specs) or self._admin.list_offsets(specs, **named)

    def alter_consumer_group_offsets(self, groups, **named):
        return self._refused([group.group_id for group in groups]) or self._admin.alter_consumer_group_offsets(
            groups, **named
        )

    def _refused(self, keys):
        if self.left <= 0:
            return None
        self.left -= 1
        futures = {key: Future() for key in keys}
        for future in futures.values():
            future.set_exception(KafkaException(KafkaError(self._code)))
        return futures


@pytest.fixture
def moving(broker, topic):
    topics.produce(broker, topic, 3)

    def asked(code, *, count):
        found = Broker(topics.source(broker.bootstrap, topic))
        found._connection.admin = found._admin = Moving(found._admin, code, count)
        return found

    return asked


@pytest.mark.parametrize("code", OF_A_MOMENT)
def test_an_answer_that_passes_is_waited_for(moving, topic, code):
    assert [facts.end for facts in moving(code, count=3).topic_facts()[0].partitions] == [3]
    assert moving(code, count=2).offsets_at({(topic, 0): WHEN})[topic, 0].offset == 0


@pytest.mark.parametrize("code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR])
def test_a_coordinator_that_starts_is_waited_for(moving, topic, code):
    asked = moving(code, count=2)
    asked.commit_heads(f"tideline.{topic}", {(topic, 0): 2})
    assert asked._admin.left == 0


def test_an_answer_that_does_not_pass_is_an_error_in_the_end(moving, monkeypatch):
    monkeypatch.setattr(passing, "SECONDS", 1.0)
    asked = moving(KafkaError.NOT_LEADER_FOR_PARTITION, count=10**6)
    with pytest.raises(RetryableError, match=r"could not answer: .*Not leader for partition"):
        asked.topic_facts()
    assert asked._admin.left < 10**6 - 2


def test_another_error_is_not_waited_for(moving):
    asked = moving(KafkaError.POLICY_VIOLATION, count=1)
    with pytest.raises(RetryableError):
        asked.topic_facts()


@pytest.mark.parametrize("code", OF_A_MOMENT)
def test_reads_of_single_records_tell_what_passes(code):
    assert isinstance(explained({("ads", 0)}, KafkaError(code)), passing.PassingError)
    assert not isinstance(explained({("ads", 0)}, KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)), passing.PassingError)


def test_partitions_are_asked_about_as_soon_as_they_are_added(broker, admin, topic):
    asked = Broker(topics.source(broker.bootstrap, topic))
    for count in range(2, 12):
        admin.create_partitions([NewPartitions(topic, count)])[topic].result()
        [facts] = asked.topic_facts()
        places = {(topic, one.partition): 0 for one in facts.partitions}
        assert asked.offsets_at(dict.fromkeys(places, WHEN)).keys() == places.keys()
        assert asked.records_from(places, 1) == {place: [] for place in places}


def test_a_topic_is_asked_about_as_soon_as_it_is_created(broker, admin):
    for number in range(5):
        name = f"young_{number}_{id(admin)}"
        admin.create_topics([topics.NewTopic(name, num_partitions=3)])[name].result()
        asked = Broker(topics.source(broker.bootstrap, name))
        topics.until(asked.topic_facts)  # until then it is missing, which is another answer
        assert len(asked.records_from({(name, 2): 0}, 1)) == 1
        assert asked.offsets_at({(name, 1): WHEN}).keys() == {(name, 1)}
