"""Receipts that the brokers have forgotten: what an attempt has committed is found by its records, or a person is asked. On real brokers."""

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from given_topics import topics
from given_topics.output_topics import N_ROWS, all_of, origins, output, receipt, rows
from identities import batch
from loads.kafka_loading import output_of
from tideline.domain.receipts import Receipt
from tideline.errors import FatalError, NeedsOperatorError, RetryableError
from tideline.ledger.intents import Intent
from tideline.ledger.publishing import Written
from tideline.sinks.kafka import kafka_search
from tideline.sinks.kafka.kafka_topic import ATTEMPT
from tideline.sinks.outside import UncertainError

DAY = 86_400.0


class Attempt:
    """An attempt that has intended to commit batch 7 to a topic."""

    def __init__(self, servers, topic, *, fence=1):
        self.own = receipt(fence)
        self.intents = []
        self.sink = output(servers, topic, pipeline=topic, intended=lambda _: self.intents)
        self.intents.append(
            Intent(
                attempt_id=1,
                attempt=self.own.attempt,
                fence=fence,
                output=topic,
                n_rows=N_ROWS,
                written=Written(n_written={1: N_ROWS}),
                facts={},
                filtered_by_difference=False,
                position=self.sink.position(),
            )
        )

    def rows(self):
        sender = (ATTEMPT, str(self.own.attempt).encode())
        return [row._replace(headers=[*row.headers, sender]) for row in rows(7)]

    def commit(self):
        return self.sink.commit(batch(7), self.own, iter(self.rows()), N_ROWS)

    def old(self):
        """Let the intent be older than what the brokers are sure to remember."""
        self.intents = [replace(one, age_seconds=30 * DAY) for one in self.intents]


@pytest.fixture
def out(admin, topic):
    return output_of(admin, topic)


@pytest.fixture
def attempt(broker, out):
    return Attempt(broker.bootstrap, out)


def forgotten(admin, attempt):
    """Let the brokers forget the receipt, as a script that deletes groups without members does."""
    group = attempt.sink.name_of(batch(7))
    admin.delete_consumer_groups([group])[group].result()


def lags(admin, group):
    """Return what monitors take for the lag of a group: for each partition, the end of its log less the offset of the group."""
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result().topic_partitions
    places = [TopicPartition(one.topic, one.partition) for one in found]
    ends = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()))
    return [ends[place].result().offset - one.offset for place, one in zip(places, found, strict=True)]


def test_a_batch_whose_receipt_is_forgotten_is_found_by_its_records_and_never_sent_again(admin, broker, out, attempt):
    attempt.commit()
    forgotten(admin, attempt)
    assert attempt.sink.look(batch(7)) is None
    assert attempt.sink.fence(batch(7), 2) == attempt.own
    assert attempt.sink.look(batch(7)) == attempt.own, "the receipt is there once more"
    assert origins(broker.bootstrap, out) == all_of(7)


def test_brokers_that_forget_within_a_minute_are_refused(attempt):
    limits = attempt.sink.limits()
    assert limits.memory_days == pytest.approx(7), "what these brokers say, by default"
    limits = replace(limits, memory_days=1 / 1440)
    with pytest.raises(
        FatalError, match=r"(?s)remember groups.*found 0\.0167 hours.*raise offsets\.retention\.minutes"
    ):
        attempt.sink.check_memory(limits)


def test_an_attempt_whose_records_are_not_there_leaves_room_for_the_next_one(broker, out, attempt, frozen):
    """What an earlier attempt has aborted is not visible, and other records are not its own."""
    frozen(out, "commit", 7, attempt.own).killed()
    other = output(broker.bootstrap, out, pipeline=f"{out}x")
    other.commit(batch(8), receipt(1), iter(rows(8)), N_ROWS)
    attempt.old()
    assert attempt.sink.fence(batch(7), 2) is None
    own = receipt(2)
    assert attempt.sink.commit(batch(7), own, iter(rows(7)), N_ROWS) == own
    assert origins(broker.bootstrap, out) == all_of(7, 8)


def test_a_marker_that_the_attempt_left_shows_that_it_has_committed_nothing(broker, out):
    attempt = Attempt(broker.bootstrap, out, fence=2)
    assert attempt.sink.fence(batch(7), 2) is None
    attempt.intents = [replace(one, position={"topic_id": "no", "ends": None}) for one in attempt.intents]
    assert attempt.sink.fence(batch(7), 3) is None, "the topic was not searched"


def test_a_topic_that_was_shortened_tells_nothing_so_a_person_is_asked(admin, broker, out, attempt):
    attempt.commit()
    forgotten(admin, attempt)
    ends = attempt.sink.position()["ends"]
    places = [TopicPartition(out, int(number), end) for number, end in ends.items()]
    for future in admin.delete_records(places).values():
        future.result()
    attempt.old()
    with pytest.raises(
        UncertainError, match=r"30\.0 days ago.*forgotten whether it did.*partition 0 was to be read"
    ) as caught:
        attempt.sink.fence(batch(7), 2)
    assert caught.value.entry == "receipt-may-be-forgotten"
    assert attempt.sink.look(batch(7)) is None
    forced = output(broker.bootstrap, out, pipeline=out)
    assert forced.fence(batch(7), 2) is None


def test_records_that_a_compacted_topic_still_has_prove_the_commit_and_their_absence_nothing(admin, broker, topic):
    out = topics.created(admin, f"{topic}_compact", **{"cleanup.policy": "compact"})
    attempt = Attempt(broker.bootstrap, out)
    attempt.old()
    with pytest.raises(UncertainError, match="the topic is compacted"):
        attempt.sink.fence(batch(7), 2)
    attempt.intents = [replace(one, age_seconds=60.0) for one in attempt.intents]
    assert attempt.sink.fence(batch(7), 2) is None, "the brokers would remember what is so new"
    forgotten(admin, attempt)
    attempt.commit()
    forgotten(admin, attempt)
    attempt.old()
    assert attempt.sink.fence(batch(7), 3) == attempt.own


def test_a_topic_that_was_created_again_has_nothing_of_the_attempt(admin, broker, out, attempt):
    attempt.commit()
    topics.recreate(admin, out)
    attempt.old()
    topics.until(lambda: attempt.sink.look(batch(7)) is None)
    assert attempt.sink.fence(batch(7), 2) is None


def test_an_open_transaction_of_another_producer_lets_the_search_be_tried_again(
    admin, broker, out, attempt, monkeypatch
):
    monkeypatch.setattr(kafka_search, "_PATIENT_POLLS", 1)
    hanging = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"{out}.hangs"})
    hanging.init_transactions(30)
    hanging.begin_transaction()
    for partition in range(3):
        hanging.produce(out, b"x", partition=partition)
    hanging.flush(30)
    attempt.commit()
    forgotten(admin, attempt)
    attempt.old()
    with pytest.raises(RetryableError, match="transaction of another producer"):
        attempt.sink.fence(batch(7), 2)
    hanging.abort_transaction(30)
    assert attempt.sink.fence(batch(7), 2) == attempt.own


def test_the_group_of_a_batch_is_not_behind_for_monitors_of_lag(admin, out, attempt):
    for act in (lambda: attempt.sink.fence(batch(7), 1), attempt.commit):
        act()
        # The group has an offset of a transaction only some moments after its commit has answered.
        topics.until(lambda: lags(admin, attempt.sink.name_of(batch(7))))
        [lag] = lags(admin, attempt.sink.name_of(batch(7)))
        assert lag <= 0
        assert float(lag) == lag, "a number that monitors can hold exactly"


def stored(broker, out, attempt, offset, metadata):
    """Commit an offset for the group of batch 7, as another program does, or a release before."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": attempt.sink.name_of(batch(7))})
    consumer.commit(offsets=[TopicPartition(out, 0, offset, metadata)], asynchronous=False)
    consumer.close()


def test_a_receipt_of_a_release_before_is_still_one(broker, out, attempt):
    own = Receipt(fence=1, attempt=attempt.own.attempt)
    stored(broker, out, attempt, 3, str(own.attempt))
    assert attempt.sink.look(batch(7)) == own == attempt.sink.fence(batch(7), 2)


@pytest.mark.parametrize("offset", [13, 14, 10**15 + 14])
def test_an_offset_of_another_program_is_neither_a_receipt_nor_a_marker(broker, out, attempt, offset):
    stored(broker, out, attempt, offset, "")
    with pytest.raises(NeedsOperatorError, match="expected an offset of Tideline"):
        attempt.sink.look(batch(7))


def test_brokers_remember_for_as_long_as_the_shorter_of_their_settings_says(admin, broker, attempt):
    assert attempt.sink.limits().memory_days == 7.0
    assert attempt.sink.remembers_days == pytest.approx(5.0)
