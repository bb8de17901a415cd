"""Batches over topics that are not a plain sequence of records: holes, transactions, and deleted offsets."""

import pytest
from confluent_kafka import TopicPartition

import records
from given_topics.topics import ends, grown, recreate, source, until
from loads.loading import coverage
from tideline import flow
from tideline.errors import NeedsOperatorError, RetryableError
from tideline.kafka.broker import Broker
from tideline.sinks.postgres import target_table

pytestmark = pytest.mark.topic(records=50)


@pytest.fixture
def topic(loading, topic) -> str:
    """Declare fifty records in one partition; each test plans before it changes the topic."""
    loading.declare(topic)
    return topic


def abort(loading, topic, values=(b"aborted",)):
    """Abort a transaction: readers see nothing. The log gets `values` and a marker, which is written a moment after the client's answer."""
    asked = Broker(source(loading.bootstrap, topic))
    before = ends(asked)[0]
    producer = records.transactional(loading.bootstrap, f"{topic}-aborted")
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    until(lambda: ends(asked) == [before + len(values) + 1])


def meanwhile(monkeypatch, act):
    """Do something once, after the check of a batch's source and before its read."""
    prepare = target_table.prepare

    def first(*arguments):
        monkeypatch.setattr(target_table, "prepare", prepare)
        act()
        return prepare(*arguments)

    monkeypatch.setattr(target_table, "prepare", first)


def test_a_range_of_transaction_markers_is_published_with_zero_rows(loading):
    topic = records.create(loading.bootstrap)
    abort(loading, topic)
    loading.declare(topic, gaps="allowed")
    loading.run()
    assert loading.output() == {}
    assert loading.counts() == {"n_read": 0, "n_written": 0, "n_rejected": 0, "n_filtered": 0, "n_gap": 2}
    assert loading.heads() == [2]


def test_a_gap_that_is_not_allowed_names_what_to_declare(loading):
    topic = records.create(loading.bootstrap)
    abort(loading, topic)
    loading.declare(topic)
    assert "declare source.gaps: allowed" in loading.refusal(NeedsOperatorError)


def test_aborted_records_are_not_read(loading):
    topic = records.create(loading.bootstrap)
    before = records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    abort(loading, topic, [records.record(number).encode() for number in range(100, 105)])
    after = records.produce(loading.bootstrap, topic, map(records.record, range(10, 20)))
    loading.declare(topic, gaps="allowed")
    loading.run()
    assert set(loading.output()) == set(before | after)
    assert loading.counts() == {"n_read": 20, "n_written": 20, "n_rejected": 0, "n_filtered": 0, "n_gap": 6}


def test_an_open_transaction_is_the_end_of_a_batch(loading, topic):
    loading.declare(topic, gaps="allowed")
    producer = records.transactional(loading.bootstrap, f"{topic}-open")
    producer.produce(topic, records.record(50))
    assert producer.flush(20) == 0
    records.produce(loading.bootstrap, topic, [records.record(51)])
    loading.run()
    assert loading.heads() == [50]
    producer.commit_transaction(20)
    loading.run()
    assert [row[0] for row in loading.output().values()] == [*range(52)]
    assert loading.heads() == [53]


def test_the_holes_of_a_compacted_topic_are_counted_as_gaps(loading):
    policy = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = records.create(loading.bootstrap, **policy)
    total = 0

    def compacted() -> bool:
        """Produce to end the active segment, which the cleaner leaves alone; return whether compaction is done."""
        nonlocal total
        total += len(records.produce(loading.bootstrap, topic, [records.record(total)] * 3, keys=[b"k"] * 3))
        return len(records.consume(loading.bootstrap, topic, total)) < total - 3

    until(compacted)
    before = records.consume(loading.bootstrap, topic, total)
    loading.declare(topic)
    loading.run()
    # The cleaner continues: a record may have been removed before the load has read it, or afterwards.
    after = records.consume(loading.bootstrap, topic, total)
    loaded = set(loading.output())
    assert after <= loaded <= before
    counts = loading.counts()
    assert (counts["n_written"], counts["n_gap"]) == (len(loaded), total - len(loaded))
    assert loading.heads() == [total]


def test_a_partition_added_between_plan_and_write_is_read_by_the_next_run(loading, topic, admin):
    loading.declare(topic, start="latest")
    loading.plan("begin")
    records.produce(loading.bootstrap, topic, map(records.record, range(50, 60)))
    batch_ids = loading.plan("first")
    grown(admin, topic, 2)
    records.produce(loading.bootstrap, topic, map(records.record, range(60, 65)), partitions=1, first_partition=1)
    loading.write("first", batch_ids)
    loading.advance("first")
    assert (sorted(loading.output()), loading.heads()) == ([(0, n) for n in range(50, 60)], [60])
    loading.run()
    assert sorted(loading.output()) == [*((0, n) for n in range(50, 60)), *((1, n) for n in range(5))]
    assert loading.heads() == [60, 5]


def test_offsets_that_retention_took_before_the_read_are_named(loading, topic, admin):
    batch_ids = loading.plan("late")
    place = TopicPartition(topic, 0, 20)
    admin.delete_records([place])[place].result(180)
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 \[0, 50\): offsets \[0, 20\) are gone unread"):
        loading.write("late", batch_ids)
    assert (loading.states(), loading.published()) == (["failed"], 0)


def test_offsets_that_vanish_during_the_read_are_named(loading, topic, admin, monkeypatch):
    """This is between check and read, where Spark raises a stack trace about something else."""
    batch_ids = loading.plan("late")
    place = TopicPartition(topic, 0, 20)
    meanwhile(monkeypatch, lambda: admin.delete_records([place])[place].result(180))
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 \[0, 50\): offsets \[0, 20\) are gone unread"):
        loading.write("late", batch_ids)
    assert (loading.states(), loading.published()) == (["failed"], 0)


@pytest.mark.parametrize("moment", ["before the read", "while reading"])
def test_lost_offsets_stop_their_stream_until_their_loss_is_accepted(loading, admin, monkeypatch, moment):
    topic = records.create(loading.bootstrap, partitions=2)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(40)), partitions=2)
    loading.declare(topic)
    (both,) = loading.plan("late")
    place = TopicPartition(topic, 0, 8)
    if moment == "before the read":
        admin.delete_records([place])[place].result(180)
    else:
        meanwhile(monkeypatch, lambda: admin.delete_records([place])[place].result(180))
    with pytest.raises(NeedsOperatorError, match=rf"tideline accept-loss loads {topic}/0 --reason"):
        loading.write("late", [both])
    stopped = "SELECT state::text, stopped_because FROM tideline.stream ORDER BY partition"
    assert [state for state, _ in loading.rows(stopped)] == ["stopped", "active"]
    assert loading.rows(stopped)[0][1].startswith("offsets [0, 8) are gone unread")

    (healthy,) = loading.plan("next")
    loading.write("next", [healthy])
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 at offset 0: offsets \[0, 8\) are gone unread"):
        loading.advance("next")
    assert (loading.states(), loading.heads()) == (["abandoned", "advanced"], [0, 20])
    assert set(loading.output()) == {place for place in sent if place[0] == 1}

    with loading.ledger() as ledger:
        said = flow.accept_loss(
            ledger, Broker(loading.pipeline.source), loading.pipeline, topic, 0, reason="they are not needed"
        )
    assert said == [f"{topic}/0: [0, 8) recorded as lost; goes on at 8"]
    (rest,) = loading.run()
    assert coverage(loading) == [(0, 8, "lost"), (8, 20, rest)]
    assert coverage(loading, partition=1) == [(0, 20, healthy)]
    assert set(loading.output()) == {(partition, offset) for partition, offset in sent if partition or offset >= 8}
    assert loading.heads() == [20, 20]


@pytest.mark.parametrize("count", [20, 100])
def test_a_topic_that_was_created_again_is_not_read(loading, topic, admin, count):
    batch_ids = loading.plan("late")
    recreate(admin, topic)
    records.produce(loading.bootstrap, topic, map(records.record, range(count)))
    with pytest.raises(NeedsOperatorError, match=rf"{topic}/0 \[0, 50\): the topic was deleted and created again"):
        loading.write("late", batch_ids)
    assert (loading.states(), loading.published()) == (["failed"], 0)


def test_a_topic_that_is_created_again_during_the_read_is_not_published(loading, topic, admin, monkeypatch):
    """The new topic has more records than before, so Spark reads them without an error."""
    batch_ids = loading.plan("late")

    def again():
        recreate(admin, topic)
        records.produce(loading.bootstrap, topic, map(records.record, range(100)))

    meanwhile(monkeypatch, again)
    with pytest.raises(NeedsOperatorError, match="was deleted and created again"):
        loading.write("late", batch_ids)
    assert (loading.states(), loading.published()) == (["failed"], 0)


def test_a_broker_that_does_not_answer_is_worth_another_try(loading, topic, monkeypatch):
    batch_ids = loading.plan("late")
    with monkeypatch.context() as broken:
        broken.setenv("TIDELINE_KAFKA", "127.0.0.1:1")
        with pytest.raises(RetryableError, match=r"brokers 127\.0\.0\.1:1 could not answer"):
            loading.write("late", batch_ids)
    assert loading.states() == ["failed"]
    loading.write("late", batch_ids, try_number=2)
    assert loading.published() == 50


def test_planner_and_reader_go_through_sasl(loading, topic, broker, monkeypatch):
    monkeypatch.setenv("TIDELINE_KAFKA", broker.sasl_bootstrap)
    monkeypatch.setenv("TEST_PASSWORD", broker.sasl_password)
    login = {
        "protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": broker.sasl_username,
        "sasl_password": {"env": "TEST_PASSWORD"},
    }
    loading.declare(topic, security=login)
    loading.run()
    assert loading.published() == 50
