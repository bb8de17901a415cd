"""Several Spark tasks read a long partition, and short ones share a task; the result is the same as with one task for each."""

import json

import pytest

import records
from given_topics.topics import ends, source, until
from tideline.kafka.broker import Broker
from tideline.spark_jobs import write_batches

FRAME = """
    def frame(df):
        return df.where("id % 10 <> 0")
"""


@pytest.fixture
def tasks(monkeypatch) -> list[dict[int, int]]:
    """Collect how many rows each Spark task has staged, batch by batch."""
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
    assert sorted(winner.n_rows for winner in tasks[0]) == [
        40,
        *[104] * 10,
    ]  # 1,040 records in one partition, 40 in the other
    assert loaded(loading) == ids(sent)
    assert loading.counts() == {"n_read": 1080, "n_written": 1080, "n_rejected": 0, "n_filtered": 0, "n_gap": 0}
    assert loading.heads() == [1040, 40]


def test_short_partitions_share_tasks_and_each_has_its_own_counts(loading, tasks):
    """Partitions of none to three records, one of them all gaps, one with rejects in both steps.

    The table's rejects count for their partition, too.
    """
    topic = records.create(loading.bootstrap, partitions=8)
    bad = {(1, 1): b"{bad", (2, 0): b'{"id": 1, "price": 5000}', (4, 0): None, (6, 1): b'{"name": "no id"}'}
    sent = {}
    for partition, count in enumerate([3, 2, 1, 0, 1, 3, 2, 0]):
        values = (bad.get((partition, n), records.record(10 * partition + n)) for n in range(count))
        sent |= records.produce(loading.bootstrap, topic, values, first_partition=partition)
    producer = records.transactional(loading.bootstrap, f"{topic}-aborted")
    producer.produce(topic, records.record(99), partition=7)
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    until(lambda: ends(Broker(source(loading.bootstrap, topic))) == [3, 2, 1, 0, 1, 3, 2, 2])
    loading.declare(topic, gaps="allowed")
    loading.run()
    assert len(tasks[0]) == 2
    assert loaded(loading) == ids({place: value for place, value in sent.items() if place not in bad})
    assert {place: step for place, (step, _, _) in loading.rejects().items()} == {
        (1, 1): "decode", (2, 0): "store", (4, 0): "decode", (6, 1): "store",
    }  # fmt: skip
    columns = "partition, n_read, n_written, n_rejected, n_gap, first_read, last_read"
    counts = f"SELECT {columns} FROM tideline.batch_range JOIN tideline.stream USING (stream_id)"
    assert sorted(loading.rows(counts)) == [
        (0, 3, 3, 0, 0, 0, 2),
        (1, 2, 1, 1, 0, 0, 1),
        (2, 1, 0, 1, 0, 0, 0),
        (4, 1, 0, 1, 0, 0, 0),
        (5, 3, 3, 0, 0, 0, 2),
        (6, 2, 1, 1, 0, 0, 1),
        (7, 0, 0, 0, 2, None, None),
    ]


def test_a_task_of_several_partitions_that_dies_and_runs_again_counts_once(loading, tasks, tmp_path):
    """It has staged rows and rejects of the first partitions when it dies; the second run finds what the first one left."""
    topic = records.create(loading.bootstrap, partitions=12)
    sent = records.produce(
        loading.bootstrap,
        topic,
        (b"{bad" if n % 7 == 3 else records.record(n) for n in range(100)),
        partitions=12,
    )
    good = ids({place: value for place, value in sent.items() if value != b"{bad"})
    text = f"""\
        import os, pathlib

        def records(batch):
            died = pathlib.Path({str(tmp_path / "died")!r})
            if len(batch) and max(batch["kafka"].combine_chunks().field("partition").to_pylist()) > 8 and not died.exists():
                died.touch()
                os._exit(1)
            return batch
        """
    loading.declare(topic, transform=text)
    loading.run()
    assert (tmp_path / "died").exists()
    assert loaded(loading) == good
    assert loading.counts() == {"n_read": 100, "n_written": len(good), "n_rejected": 14, "n_filtered": 0, "n_gap": 0}


def test_partitions_that_share_a_task_count_apart_behind_a_frame_too(loading, tasks):
    topic = records.create(loading.bootstrap, partitions=9)
    sent = records.produce(loading.bootstrap, topic, map(records.record, range(45)), partitions=9)
    loading.declare(topic, transform=FRAME)
    loading.run()
    assert loaded(loading) == {place: number for place, number in ids(sent).items() if number % 10}
    counts = "SELECT n_read, n_written + n_filtered, first_read, last_read FROM tideline.batch_range"
    assert loading.rows(counts) == [(5, 5, 0, 4)] * 9


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
    until(lambda: ends(Broker(source(loading.bootstrap, topic))) == [150])  # the marker is written a moment later
    after = records.produce(loading.bootstrap, topic, map(records.record, range(50, 100)))
    loading.declare(topic, limits={"split_records": 25}, gaps="allowed")
    loading.run()
    assert sorted(winner.n_rows for winner in tasks[0]) == [0, 0, 0, 0, 25, 25, 25, 25]
    assert loaded(loading) == ids(before | after)
    assert loading.counts() == {"n_read": 100, "n_written": 100, "n_rejected": 0, "n_filtered": 0, "n_gap": 100}
