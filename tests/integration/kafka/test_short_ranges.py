"""One consumer that reads many short ranges gives the same as Spark's reader, or leaves a range to it."""

import json

import pytest
from confluent_kafka import Producer

import records
from batch_ranges import piece
from given_topics.topics import source
from records import produce
from tideline.domain.offsets import OffsetRange
from tideline.kafka.settings import spark_settings
from tideline.ledger.attempts import Range
from tideline.spark_jobs.readers import kafka, short_ranges

PARTITIONS = 60


def ranges_of(topic: str, ends: dict[int, int], *, start: int = 0) -> list[Range]:
    return [piece(topic, partition, start, end, gaps_allowed=True) for partition, end in ends.items()]


@pytest.fixture
def together(spark, broker):
    """Read groups of ranges with one consumer."""

    def read(topic, *groups, **options):
        return short_ranges.read(spark, spark_settings(source(broker.bootstrap, topic)), groups, **options)

    return read


@pytest.fixture
def apart(spark, broker):
    """Read ranges with Spark's reader: all columns of all records, in order."""

    def read(topic, ranges):
        options = kafka.reader_options(spark_settings(source(broker.bootstrap, topic)), ranges, split_records=1000)
        return in_order(kafka.load(spark, options))

    return read


def rows(found):
    """Return what one consumer has read."""
    return in_order(*map(kafka.columns, found.records))


def in_order(*frames):
    return sorted((row for frame in frames for row in frame.collect()), key=lambda row: (row.partition, row.offset))


def test_each_record_is_what_sparks_reader_makes_of_it(broker, together, apart):
    topic = records.create(broker.bootstrap, partitions=4, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, None, key=b"a tombstone", partition=0)
    producer.produce(topic, b"", key=b"", partition=0, timestamp=1)
    producer.produce(topic, b"\xff\x00\xfe", partition=0, headers=[("twice", b"1"), ("twice", None), ("", b"\x00\xff")])
    producer.produce(topic, "ü", partition=1, headers=[("ü€", "ü".encode())], timestamp=4_102_444_800_000)
    assert producer.flush(20) == 0
    transaction = records.transactional(broker.bootstrap, f"{topic}-aborted")
    for partition in (1, 2):
        transaction.produce(topic, b"never to be seen", partition=partition)
    assert transaction.flush(20) == 0
    transaction.abort_transaction(20)
    produce(broker.bootstrap, topic, [b"behind a record that was aborted"], first_partition=1)
    ranges = ranges_of(topic, {0: 3, 1: 4, 2: 2})
    found = together(topic, ranges[:1], ranges[1:])
    assert found.left == []
    assert rows(found) == apart(topic, ranges)
    assert [row.value for row in rows(found)] == [
        None,
        b"",
        b"\xff\x00\xfe",
        "ü".encode(),
        b"behind a record that was aborted",
    ]


def test_records_before_and_behind_a_range_are_not_in_it(broker, together, apart):
    """Behind a range: a fetch does not stop at its end, and other records arrive while a batch is read."""
    topic = records.create(broker.bootstrap, partitions=3)
    produce(broker.bootstrap, topic, map(records.record, range(3000)), partitions=3)
    ranges = ranges_of(topic, {0: 4, 1: 999, 2: 4}, start=2)
    found = together(topic, ranges)
    assert found.left == []
    assert rows(found) == apart(topic, ranges)
    assert len(rows(found)) == 2 + 997 + 2


def test_what_does_not_fit_into_the_drivers_memory_is_left_whole(broker, together, apart):
    topic = records.create(broker.bootstrap, partitions=8)
    produce(broker.bootstrap, topic, (b"x" * 200_000 for _ in range(80)), partitions=8)
    ranges = ranges_of(topic, dict.fromkeys(range(8), 10))
    found = together(topic, ranges[:4], ranges[4:], max_bytes=1_000_000)
    assert set(found.left) >= set(ranges[4:])  # the first group alone is eight times as large
    finished = [piece for piece in ranges if piece not in found.left]
    assert rows(found) == (apart(topic, finished) if finished else [])


@pytest.mark.parametrize("missing", [OffsetRange(0, 100), OffsetRange(50, 60)], ids=["no such end", "no such start"])
def test_a_range_that_is_not_there_is_left_and_costs_no_other_range_a_record(
    broker, together, apart, monkeypatch, missing
):
    monkeypatch.setattr(short_ranges, "MAX_SILENCE_S", 1.0)
    topic = records.create(broker.bootstrap, partitions=3)
    produce(broker.bootstrap, topic, map(records.record, range(30)), partitions=3)
    first, second = ranges_of(topic, {0: 10, 1: 10})
    gone = ranges_of(topic, {2: missing.end}, start=missing.start)
    found = together(topic, [first], [second, *gone])
    assert set(gone) <= set(found.left) <= {second, *gone}
    finished = [piece for piece in (first, second) if piece not in found.left]
    assert rows(found) == apart(topic, finished)


def test_brokers_that_do_not_answer_leave_every_range(spark, monkeypatch, capfd):
    monkeypatch.setattr(short_ranges, "MAX_SILENCE_S", 0.5)
    ranges = ranges_of("ads", {0: 1, 1: 1})
    unreachable = {"kafka.bootstrap.servers": "127.0.0.1:1"}
    assert short_ranges.read(spark, unreachable, [ranges]).left == ranges
    assert short_ranges.read(spark, {"kafka.bootstrap.servers": "no address"}, [ranges]).left == ranges
    said = capfd.readouterr().out
    assert "2 short ranges are left to Spark's reader: too many bytes, or no answer\n" in said
    assert "2 short ranges are left to Spark's reader: org.apache.kafka.common.KafkaException\n" in said


def test_a_batch_of_many_short_ranges_is_loaded_with_exact_counts(loading, monkeypatch, capfd):
    """In addition there are two long ranges, rejects of each step, and records that a transform filters."""
    apart = []
    load = kafka.load

    def spy(spark, options):
        apart.append(set(json.loads(options["assign"])[topic]))
        return load(spark, options)

    monkeypatch.setattr(kafka, "load", spy)
    topic = records.create(loading.bootstrap, partitions=PARTITIONS + 2)
    bad = {7: b"{bad", 8: b'{"id": 1, "price": 5000}'}
    sent = produce(
        loading.bootstrap,
        topic,
        (bad.get(n % 20, records.record(n)) for n in range(4 * PARTITIONS)),
        partitions=PARTITIONS,
    )
    sent |= produce(
        loading.bootstrap, topic, map(records.record, range(1000, 1600)), partitions=2, first_partition=PARTITIONS
    )
    loading.declare(topic)
    loading.run()
    assert apart[0] == {PARTITIONS, PARTITIONS + 1}  # then the records that the table has refused, of a few ranges
    good = {place for place, value in sent.items() if value not in bad.values()}
    assert loading.output().keys() == good
    assert loading.rejects().keys() == sent.keys() - good
    n_bad = 2 * 4 * PARTITIONS // 20
    assert loading.counts() == {
        "n_read": 840, "n_written": 840 - n_bad, "n_rejected": n_bad, "n_filtered": 0, "n_gap": 0,
    }  # fmt: skip
    assert loading.heads() == [4] * PARTITIONS + [300, 300]
    said = capfd.readouterr().out
    assert f"{topic}/19 [0, 4) and 42 more\n" in said
    assert (
        f"{topic}/19 [0, 4): read 4, written 4, rejected 0, filtered 0, gap 0\n  and 42 more: tideline batch 1\n"
        in said
    )


def test_a_task_of_many_short_ranges_that_dies_and_runs_again_counts_once(loading, tmp_path):
    topic = records.create(loading.bootstrap, partitions=PARTITIONS)
    sent = produce(
        loading.bootstrap,
        topic,
        (b"{bad" if n % 7 == 3 else records.record(n) for n in range(300)),
        partitions=PARTITIONS,
    )
    died = tmp_path / "died"
    text = f"""\
        import os, pathlib

        def records(batch):
            died = pathlib.Path({str(died)!r})
            if len(batch) and not died.exists():
                died.touch()
                os._exit(1)
            return batch
        """
    loading.declare(topic, transform=text)
    loading.run()
    assert died.exists()
    n_bad = sum(value == b"{bad" for value in sent.values())
    assert loading.counts() == {
        "n_read": 300, "n_written": 300 - n_bad, "n_rejected": n_bad, "n_filtered": 0, "n_gap": 0,
    }  # fmt: skip
