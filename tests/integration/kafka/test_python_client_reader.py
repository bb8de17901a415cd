"""The reader that uses the Python client gives the same as Spark's reader, of each record and of each range."""

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import records
from batch_ranges import piece
from faults.bad_input import wire
from given_topics.topics import source
from records import produce
from tideline.kafka.settings import executor_settings, spark_settings
from tideline.spark_jobs.readers import kafka, python_client
from tideline.spark_jobs.readers.task_limits import TaskLimits, fitting


@pytest.fixture
def both(spark, broker):
    """Read ranges with each of the two readers: all columns of all records, in order."""

    def read(topic, ranges, split_records, most=100):
        declared = source(broker.bootstrap, topic)
        limits = TaskLimits(cores=2, most=most, split_records=split_records)
        by_spark = kafka.read(spark, spark_settings(declared), ranges, limits)
        by_python = python_client.read(spark, executor_settings(declared), ranges, limits)
        assert all(frame.rdd.getNumPartitions() <= most for frame in (by_spark, by_python))
        return [sorted(frame.collect(), key=lambda row: (row.partition, row.offset)) for frame in (by_spark, by_python)]

    return read


def ranges_of(topic, ends, start=0):
    return [piece(topic, partition, start, end, gaps_allowed=True) for partition, end in ends.items()]


def test_each_record_is_what_sparks_reader_makes_of_it(broker, both):
    topic = records.create(broker.bootstrap, partitions=3, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, None, key=b"a tombstone", partition=0)
    producer.produce(topic, b"", key=b"", partition=0, timestamp=1)
    producer.produce(topic, b"\xff\x00\xfe", partition=0, headers=[("twice", b"1"), ("twice", None), ("", b"\x00\xff")])
    producer.produce(topic, "ü", partition=1, headers=[("ü€", "ü".encode())], timestamp=4_102_444_800_000)
    assert producer.flush(20) == 0
    by_spark, by_python = both(topic, ranges_of(topic, {0: 3, 1: 1}), 1000)
    assert by_python == by_spark
    assert len(by_python) == 4


def test_the_name_of_a_header_that_is_no_text_ends_no_process(broker, both):
    """The client leaves an empty place for it. What reads that place dies."""
    topic = records.create(broker.bootstrap, partitions=1)
    headers = ((b"before", b"1"), (b"\xff", b"2"), (b"\xfe", None), (b"behind", b"3"))
    wire.produce(broker.bootstrap, topic, 0, [(None, b"x", headers, 1), (None, b"y", headers, 1)])
    by_spark, by_python = both(topic, ranges_of(topic, {0: 2}), 1000)
    assert by_python == by_spark
    assert len(by_python) == 2


def test_offsets_without_a_record_end_no_range_early_and_keep_none_waiting(broker, both):
    """Aborted records and markers of transactions, at the end of the log and before other records."""
    topic = records.create(broker.bootstrap, partitions=2)
    transaction = records.transactional(broker.bootstrap, f"{topic}-aborted")
    for partition in (0, 1):
        transaction.produce(topic, b"never to be seen", partition=partition)
    assert transaction.flush(20) == 0
    transaction.abort_transaction(20)
    produce(broker.bootstrap, topic, [b"behind a record that was aborted"], first_partition=1)
    by_spark, by_python = both(topic, ranges_of(topic, {0: 2, 1: 3}), 1000)
    assert by_python == by_spark
    # Its offset is 1 or 2: the marker of the aborted transaction may be written behind it.
    assert [(row.partition, row.value) for row in by_python] == [(1, b"behind a record that was aborted")]


@pytest.mark.parametrize("split_records", [700, 5_000])
def test_parts_of_partitions_are_read_to_their_ends_and_no_further(broker, both, split_records):
    topic = records.create(broker.bootstrap, partitions=3)
    produce(broker.bootstrap, topic, map(records.record, range(9_000)), partitions=3)
    ranges = ranges_of(topic, {0: 4, 1: 2_900, 2: 3_000}, start=2)
    by_spark, by_python = both(topic, ranges, split_records)
    assert by_python == by_spark
    assert len(by_python) == 2 + 2_898 + 2_998


@pytest.mark.parametrize("most", [1, 3])
def test_with_few_connections_parts_of_partitions_share_tasks_and_are_read_the_same(broker, both, most):
    topic = records.create(broker.bootstrap, partitions=4)
    produce(broker.bootstrap, topic, map(records.record, range(4_000)), partitions=4)
    ranges = ranges_of(topic, {0: 10, 1: 500, 2: 990, 3: 1_000}, start=2)
    fit = fitting([len(one.offsets) for one in ranges], cores=2, most=most, split=90)
    by_spark, by_python = both(topic, ranges, fit.split_records, most)
    assert by_python == by_spark
    assert len(by_python) == 8 + 498 + 988 + 998


def test_a_task_reads_its_parts_and_no_further(broker):
    topic = records.create(broker.bootstrap, partitions=2)
    produce(broker.bootstrap, topic, map(records.record, range(40)), partitions=2)
    tasks = (tuple(python_client.OffsetSlice(topic=topic, partition=n, start=5, end=9) for n in (0, 1)),)
    reading = python_client.Reading(settings=executor_settings(source(broker.bootstrap, topic)), tasks=tasks)
    read = pa.Table.from_batches(reading(iter([pa.record_batch({"id": [0]})])))
    places = list(zip(read["partition"].to_pylist(), read["offset"].to_pylist(), strict=True))
    assert places == [(partition, offset) for partition in (0, 1) for offset in range(5, 9)]


def test_each_part_of_a_split_range_has_a_task_of_its_own():
    """Counts are kept by stream and first offset of a task: one with two parts would be counted as one."""
    ranges = [piece("ads", 0, 0, 25), piece("ads", 1, 5, 9), piece("ads", 2, 0, 10)]
    tasks = list(python_client.shares(ranges, split_records=10))
    parts = [[(one.partition, one.start, one.end) for one in task] for task in tasks]
    assert parts == [[(0, 0, 10)], [(0, 10, 20)], [(0, 20, 25)], [(1, 5, 9), (2, 0, 10)]]


def test_a_large_record_has_an_arrow_batch_of_its_own(monkeypatch):
    monkeypatch.setattr(python_client, "_MAX_BYTES", 10)
    rows = [("t", 0, offset, 0, None, value, None) for offset, value in enumerate([b"1234", b"1234", b"x" * 99, b"1"])]
    assert [len(batch) for batch in python_client._batches(rows)] == [2, 1, 1]
