"""Who begins a transaction ends all earlier ones of the batch, and only then looks. And where keys go. On a real broker."""

import threading
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from given_topics import topics
from given_topics.output_topics import N_ROWS, all_of, committed_records, origins, output, receipt, rows
from identities import batch
from loads.kafka_loading import output_of
from tideline.errors import FatalError, NeedsOperatorError, SupersededError
from tideline.sinks.kafka.kafka_topic import KafkaTopic, Message
from tideline.sinks.kafka.kafka_transaction import Transaction


@pytest.fixture
def out(admin, topic):
    return output_of(admin, topic)


@pytest.fixture
def sink(broker, out):
    return output(broker.bootstrap, out, pipeline=out)


def just_before_it_begins(monkeypatch, act):
    """Let something happen just before the next producer ends all others of its batch."""
    begin = Transaction.__enter__

    def late(self):
        monkeypatch.setattr(Transaction, "__enter__", begin)
        act()
        return begin(self)

    monkeypatch.setattr(Transaction, "__enter__", late)


def test_what_is_committed_just_before_a_fence_ends_all_others_is_its_receipt(broker, out, sink, monkeypatch):
    own = receipt(1)
    just_before_it_begins(monkeypatch, lambda: sink.commit(batch(7), own, iter(rows(7)), N_ROWS))
    assert sink.fence(batch(7), 2) == own
    assert sink.look(batch(7)) == own
    assert origins(broker.bootstrap, out) == all_of(7)


def test_what_is_committed_just_before_another_attempt_begins_is_not_committed_again(broker, out, sink, monkeypatch):
    own = receipt(1)
    just_before_it_begins(monkeypatch, lambda: sink.commit(batch(7), own, iter(rows(7)), N_ROWS))
    with pytest.raises(SupersededError):
        sink.commit(batch(7), receipt(2), iter(rows(7)), N_ROWS)
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_look_waits_for_a_commit_in_flight(out, sink, frozen):
    own, found = receipt(1), []
    orphan = frozen(out, "commit", 7, own)
    looking = threading.Thread(target=lambda: found.append(sink.look(batch(7))))
    looking.start()
    time.sleep(0.5)
    assert found == [], "it has answered although a transaction was open"
    assert orphan.thawed() == "committed"
    looking.join()
    assert found == [own]


def test_a_commit_that_ends_with_an_error_and_has_happened_is_found(broker, out, sink, monkeypatch):
    commit, own = Transaction.commit, receipt(1)

    def answer_lost(self, version):
        commit(self, version)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(Transaction, "commit", answer_lost)
    assert sink.commit(batch(7), own, iter(rows(7)), N_ROWS) == own
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_transaction_that_fails_ends_at_once_and_holds_no_reader_up(broker, admin, out, sink):
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": out, "isolation.level": "read_uncommitted"})

    def arrived():
        return any(reader.get_watermark_offsets(TopicPartition(out, number), 20)[1] for number in range(3))

    def failing():
        yield from rows(7)
        topics.until(arrived)
        raise OSError("the ledger is gone")

    with pytest.raises(OSError, match="the ledger is gone"):
        sink.commit(batch(7), receipt(1), failing(), N_ROWS)
    reader.close()
    topics.until(lambda: topics.nothing_open(admin, out), seconds=15)  # the brokers would end it after a minute
    assert origins(broker.bootstrap, out) == []


def test_a_key_goes_where_javas_partitioner_puts_it(broker, admin, topic):
    """With the hashes that Kafka's own tests expect of its murmur2."""
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    out = topics.created(admin, f"{topic}_wide", partitions=7)
    sent = [row._replace(key=key) for row, key in zip(rows(7), hashes, strict=False)]
    output(broker.bootstrap, out, pipeline=out).commit(batch(7), receipt(1), iter(sent), len(hashes))
    found = {one.key(): one.partition() for one in committed_records(broker.bootstrap, out)}
    assert found == {key: (value & 0x7FFFFFFF) % 7 for key, value in hashes.items()}


def test_records_without_a_key_spread_over_the_partitions(broker, out, sink):
    def slow():
        for row in rows(7, 20):
            yield Message(None, row.value, row.headers)
            time.sleep(0.012)  # longer than the client stays at one partition

    sink.commit(batch(7), receipt(1), slow(), 20)
    assert len({one.partition() for one in committed_records(broker.bootstrap, out)}) > 1


def test_a_topic_that_was_written_and_is_gone_needs_a_person(broker, out):
    """Its receipts are gone with its records."""
    known = output(broker.bootstrap, f"{out}x", pipeline=out)
    missing = KafkaTopic(
        out, known._brokers, f"{out}x", seconds=60, known=lambda: "attempt 2 of batch 7 was to commit to it"
    )
    for act in (lambda: missing.look(batch(7)), lambda: missing.fence(batch(7), 2), missing.limits):
        with pytest.raises(NeedsOperatorError, match="expected the topic, because attempt 2 of batch 7") as caught:
            act()
        assert caught.value.entry == "output-topic-missing"
    with pytest.raises(FatalError, match="the topic does not exist"):
        known.look(batch(7))
