"""An output topic on a real broker: readers of committed records see each batch once or not at all."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from given_topics import topics
from given_topics.output_topics import N_ROWS, all_of, committed_records, origins, output, receipt, rows
from identities import batch
from tideline.declaration.sections import FromEnvironment
from tideline.declaration.security import Security
from tideline.deployment import secret
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.sinks.kafka.kafka_topic import ORIGIN

BEFORE_THE_COMMIT = ["begin", "look", "send", "commit"]


@pytest.fixture
def out(admin, topic):
    """Create an output topic."""
    return topics.created(admin, f"{topic}_out", partitions=3)


@pytest.fixture
def sink(broker, out):
    return output(broker.bootstrap, out, pipeline=out)


def commit(sink, batch_id, own):
    return sink.commit(batch(batch_id), own, iter(rows(batch_id)), N_ROWS)


def test_a_batch_is_committed_with_its_receipt(broker, out, sink):
    own = receipt(1)
    assert sink.look(batch(7)) is None
    assert commit(sink, 7, own) == own
    assert sink.look(batch(7)) == own
    assert sink.look(batch(8)) is None
    assert origins(broker.bootstrap, out) == all_of(7)


def test_the_topic_lists_all_batches_of_its_pipeline(broker, out, sink):
    commit(sink, 7, receipt(1))
    sink.fence(batch(8), 2)
    rejects = output(broker.bootstrap, out, purpose=".rejects")
    commit(rejects, 9, receipt(1))
    commit(output(broker.bootstrap, out, pipeline=f"{out}.more"), 6, receipt(1))
    assert {*sink.identities()} == {batch(7).identity, batch(8).identity}
    assert rejects.identities() == [batch(9).identity]


def test_an_attempt_that_commits_again_is_told_that_it_has(broker, out, sink):
    own = receipt(1)
    commit(sink, 7, own)
    assert commit(sink, 7, own) == own
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_fence_finds_what_was_committed_and_changes_nothing(broker, out, sink):
    own = receipt(1)
    commit(sink, 7, own)
    assert (sink.fence(batch(7), 2), sink.fence(batch(7), 2), sink.fence(batch(7), 9)) == (own, own, own)
    with pytest.raises(SupersededError):
        commit(sink, 7, receipt(9))
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_fence_leaves_room_for_its_own_attempt_only(broker, out, sink):
    assert sink.fence(batch(7), 3) is None
    for fence in (1, 2):
        with pytest.raises(SupersededError, match="found version 6"):
            sink.commit(batch(7), receipt(fence), iter(rows(7)), N_ROWS)
    assert origins(broker.bootstrap, out) == []
    assert sink.fence(batch(7), 2) is None  # an older attempt that fences late lowers nothing
    with pytest.raises(SupersededError, match="found version 6"):
        commit(sink, 7, receipt(2))
    own = receipt(3)
    assert commit(sink, 7, own) == own
    assert origins(broker.bootstrap, out) == all_of(7)


@pytest.mark.parametrize("count", [0, N_ROWS - 1, N_ROWS + 1])
def test_another_number_of_rows_than_staged_commits_nothing(broker, out, sink, count):
    with pytest.raises(RetryableError, match=f"expected {N_ROWS} staged rows, found {count}"):
        sink.commit(batch(7), receipt(1), iter(rows(7, count)), N_ROWS)
    assert (sink.look(batch(7)), origins(broker.bootstrap, out)) == (None, [])


def test_a_batch_without_rows_has_a_receipt_too(broker, out, sink):
    own = receipt(2)
    assert sink.fence(batch(7), 2) is None
    assert sink.commit(batch(7), own, iter(()), 0) == own
    assert sink.fence(batch(7), 3) == own
    assert origins(broker.bootstrap, out) == []


def test_rows_that_cannot_be_read_commit_nothing(broker, out, sink):
    def failing():
        yield from rows(7, 10)
        raise OSError("the ledger is gone")

    with pytest.raises(OSError, match="the ledger is gone"):
        sink.commit(batch(7), receipt(1), failing(), N_ROWS)
    assert (sink.look(batch(7)), origins(broker.bootstrap, out)) == (None, [])


@pytest.mark.parametrize("door", BEFORE_THE_COMMIT)
def test_a_retry_is_read_once_when_the_frozen_attempt_thaws_afterwards(broker, out, sink, door, frozen):
    orphan = frozen(out, door, 7, receipt(1))
    own = receipt(2)
    assert sink.fence(batch(7), 2) is None
    assert commit(sink, 7, own) == own
    assert orphan.thawed() == "SupersededError"
    assert sink.look(batch(7)) == own
    assert origins(broker.bootstrap, out) == all_of(7)


@pytest.mark.parametrize("door", BEFORE_THE_COMMIT)
def test_an_abandoned_batch_is_never_read_when_the_frozen_attempt_thaws(broker, out, sink, door, frozen):
    """Without a marker, an attempt that was frozen before its producer began would commit: it would end all others."""
    orphan = frozen(out, door, 7, receipt(1))
    assert sink.fence(batch(7), 2) is None
    assert orphan.thawed() == "SupersededError"
    assert (sink.look(batch(7)), origins(broker.bootstrap, out)) == (None, [])


@pytest.mark.parametrize("door", BEFORE_THE_COMMIT)
def test_an_attempt_that_dies_before_its_commit_holds_no_reader_up(broker, out, sink, door, frozen):
    frozen(out, door, 7, receipt(1)).killed()
    assert sink.fence(batch(7), 2) is None
    assert origins(broker.bootstrap, out) == []
    commit(sink, 7, receipt(2))
    assert origins(broker.bootstrap, out) == all_of(7)


def test_an_attempt_that_dies_after_its_commit_is_found_by_the_fence(broker, out, sink, frozen):
    own = receipt(1)
    frozen(out, "end", 7, own).killed()
    assert sink.fence(batch(7), 2) == own
    assert origins(broker.bootstrap, out) == all_of(7)


def thawing(orphan, said):
    """Yield the rows of a batch, and let an orphan go on to its end in their middle."""
    yield from rows(7)[:10]
    said.append(orphan.thawed())
    yield from rows(7)[10:]


def test_an_orphan_that_begins_while_the_retry_writes_only_delays_it(broker, out, sink, frozen):
    """It ends the retry's transaction. Nothing of it is read, and the next try succeeds."""
    orphan, said = frozen(out, "begin", 7, receipt(1)), []
    assert sink.fence(batch(7), 2) is None
    with pytest.raises(RetryableError, match="another process has ended the transaction; nothing was committed"):
        sink.commit(batch(7), receipt(2), thawing(orphan, said), N_ROWS)
    assert (said, origins(broker.bootstrap, out)) == (["SupersededError"], [])
    assert sink.fence(batch(7), 3) is None
    commit(sink, 7, receipt(3))
    assert origins(broker.bootstrap, out) == all_of(7)


def test_an_orphan_that_looks_while_the_retry_writes_changes_nothing(broker, out, sink, frozen):
    orphan, said = frozen(out, "look", 7, receipt(1)), []
    assert sink.fence(batch(7), 2) is None
    sink.commit(batch(7), receipt(2), thawing(orphan, said), N_ROWS)
    assert said == ["SupersededError"]
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_transaction_that_takes_too_long_commits_nothing(broker, admin, out):
    # It also limits each request to the brokers: one of a busy machine takes more than a second.
    sink = output(broker.bootstrap, out, pipeline=out, seconds=8)

    def slow():
        yield from rows(7)
        topics.until(lambda: topics.nothing_open(admin, out))

    with pytest.raises(RetryableError, match=r"lower limits\.batch_records") as caught:
        sink.commit(batch(7), receipt(1), slow(), N_ROWS)
    assert "expected the transaction to end within 8 seconds" in str(caught.value)
    assert (sink.fence(batch(7), 2), origins(broker.bootstrap, out)) == (None, [])
    commit(output(broker.bootstrap, out, pipeline=out), 7, receipt(2))
    assert origins(broker.bootstrap, out) == all_of(7)


def test_a_longer_transaction_than_the_brokers_allow_is_refused(broker, out):
    sink = output(broker.bootstrap, out, pipeline=out, seconds=3600)
    with pytest.raises(FatalError, match=r"lower sink\.transaction_seconds, or raise transaction\.max\.timeout\.ms"):
        commit(sink, 7, receipt(1))


def test_a_topic_that_does_not_exist_is_refused_with_the_command_that_creates_it(broker, out):
    for act in (
        lambda sink: sink.look(batch(7)),
        lambda sink: sink.fence(batch(7), 2),
        lambda sink: commit(sink, 7, receipt(1)),
    ):
        with pytest.raises(FatalError, match=rf"kafka-topics\.sh --create --topic {out}x"):
            act(output(broker.bootstrap, f"{out}x", pipeline=out))


def test_brokers_that_do_not_answer_are_to_be_tried_again(out):
    with pytest.raises(RetryableError, match="could not answer"):
        output("127.0.0.1:1", out).fence(batch(7), 2)


def test_a_group_that_another_program_uses_is_refused(broker, out, sink):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"tideline.{out}.{batch(7).identity}"})
    consumer.commit(offsets=[TopicPartition(out, 0, 13)], asynchronous=False)
    consumer.close()
    for act in (lambda: sink.look(batch(7)), lambda: sink.fence(batch(7), 2), lambda: commit(sink, 7, receipt(2))):
        with pytest.raises(
            NeedsOperatorError,
            match=f"expected an offset of Tideline in group tideline.{out}.{batch(7).identity}, found 13",
        ):
            act()


def polled_by(java, consumer, records, *, enough):
    """Return what the next poll gives; nothing only after enough records."""
    while True:
        found, each = [], consumer.poll(java.java.time.Duration.ofSeconds(1)).iterator()
        while each.hasNext():
            found.append(each.next())
        if found or len(records) >= enough:
            return found


def test_java_puts_each_key_where_java_would_and_reads_every_row_once(broker, admin, topic, spark, frozen):
    """With Java's own consumer of committed records, and its own partitioner."""
    out = topics.created(admin, f"{topic}_java", partitions=7)
    sink = output(broker.bootstrap, out, pipeline=out)
    frozen(out, "commit", 7, receipt(1)).killed()
    sink.fence(batch(7), 2)
    commit(sink, 7, receipt(2))
    commit(sink, 8, receipt(1))
    java = spark._jvm
    settings = java.java.util.Properties()
    deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    for name, value in {
        "bootstrap.servers": broker.bootstrap,
        "isolation.level": "read_committed",
        "key.deserializer": deserializer,
        "value.deserializer": deserializer,
    }.items():
        settings.put(name, value)
    consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    places = [java.org.apache.kafka.common.TopicPartition(out, partition) for partition in range(7)]
    consumer.assign(places)
    consumer.seekToBeginning(places)
    records = []
    while polled := polled_by(java, consumer, records, enough=2 * N_ROWS):
        records += polled
    consumer.close()
    found = sorted(bytes(record.headers().lastHeader(ORIGIN).value()).decode() for record in records)
    assert found == all_of(7, 8)
    utils = java.org.apache.kafka.common.utils.Utils
    for record in records:
        assert record.partition() == utils.toPositive(utils.murmur2(record.key())) % 7
    assert len({record.partition() for record in records}) > 3


def test_the_rows_of_a_key_keep_their_order(broker, out, sink):
    same = [row._replace(key=b"one key") for row in rows(7, 1000)]
    sink.commit(batch(7), receipt(1), iter(same), 1000)
    found = [dict(one.headers())[ORIGIN].decode() for one in committed_records(broker.bootstrap, out)]
    assert found == all_of(7, count=1000)


def test_a_login_with_a_password_works_and_a_wrong_one_is_reported(broker, out, monkeypatch):
    monkeypatch.setenv("TEST_PASSWORD", broker.sasl_password)
    security = Security(
        protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=broker.sasl_username,
        sasl_password=FromEnvironment(env="TEST_PASSWORD"),
    )
    sink = output(broker.sasl_bootstrap, out, pipeline=out, security=security)
    own = receipt(1)
    assert commit(sink, 7, own) == own == sink.look(batch(7))
    monkeypatch.setenv("TEST_PASSWORD", secret.marked("wrong"))
    with pytest.raises(FatalError, match=r"(?s)refused the connection.*correct sink\.security"):
        sink.fence(batch(7), 2)
