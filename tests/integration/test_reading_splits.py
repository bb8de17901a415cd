"""A long partition is read by several Spark tasks at once; what they load is what one task would load."""

import json

import pytest

import records
from spark_jobs import write_batches
from tideline.kafka import Broker
from topics import ends, source, until

FRAME = """
    def frame(df):
        return df.where("id % 10 <> 0")
"""


@pytest.fixture
def tasks(monkeypatch) -> list[dict[int, int]]:
    """How many rows each Spark task has staged, batch by batch."""
    seen = []
    ran = write_batches._run

    def run(*arguments):
        seen.append(ran(*arguments))
        return seen[-1]

    monkeypatch.setattr(write_batches, "_run", run)
    return seen


def ids(sent):
    return {place: json.loads(value)["id"] for place, value in sent.items()}


def loaded(loading):
    return {place: row[0] for place, row in loading.output().items()}


def test_a_long_partition_is_read_by_several_tasks_and_every_record_once(loading, tasks):
    topic = records.create(loading.bootstrap, partitions=2)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(1000)))
    sent |= records.produce(loading.bootstrap, topic, map(records.record, range(1000, 1080)), partitions=2)
    loading.declare(topic, limits={"split_records": 104})
    loading.run()
    assert sorted(tasks[0].values()) == [40, *[104] * 10]  # 1,040 records in one partition, 40 in the other
    assert loaded(loading) == ids(sent)
    assert loading.counts() == {"n_read": 1080, "n_written": 1080, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}
    assert loading.heads() == [1040, 40]


def test_a_partition_that_is_not_long_stays_one_task(loading, tasks):
    topic = records.create(loading.bootstrap, partitions=3)
    records.produce(loading.bootstrap, topic, map(records.record, range(300)), partitions=3)
    loading.declare(topic)
    loading.run()
    assert list(tasks[0].values()) == [100, 100, 100]


def test_the_parts_of_a_partition_count_as_one_behind_a_frame_too(loading, tasks):
    topic = records.create(loading.bootstrap)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(500)))
    good = ids(sent)
    records.produce(loading.bootstrap, topic, [b"{"])
    loading.declare(topic, limits={"split_records": 100}, transform=FRAME)
    loading.run()
    assert len(tasks[0]) == 6
    assert loaded(loading) == {place: number for place, number in good.items() if number % 10}
    assert loading.counts() == {"n_read": 501, "n_written": 450, "n_rejected": 1, "n_filtered": 50, "n_gap": 0}


def test_a_part_in_which_nothing_may_be_read_is_a_gap(loading, tasks):
    topic = records.create(loading.bootstrap)
    before = records.produce(loading.bootstrap, topic, map(records.record, range(50)))
    producer = records.transactional(loading.bootstrap, f"{topic}-aborted")
    for number in range(99):
        producer.produce(topic, records.record(number))
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    until(lambda: ends(Broker(source(loading.bootstrap, topic))) == [150])  # the marker comes a moment later
    after = records.produce(loading.bootstrap, topic, map(records.record, range(50, 100)))
    loading.declare(topic, limits={"split_records": 25}, gaps="allowed")
    loading.run()
    assert sorted(tasks[0].values()) == [0, 0, 0, 0, 25, 25, 25, 25]
    assert loaded(loading) == ids(before | after)
    assert loading.counts() == {"n_read": 100, "n_written": 100, "n_rejected": 0, "n_filtered": 0, "n_gap": 100}
