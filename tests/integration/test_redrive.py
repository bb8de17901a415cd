"""A re-drive decodes rejects again, from the bytes that were kept: those that can be written now move into the output, once."""

import pytest
from confluent_kafka import Producer

import records
from given_topics.topics import exists, recreate, until
from loads.loading import (
    ALL,
    WITH_A_BAD_RECORD,
    batches,
    counts_of,
    coverage,
    everything,
    faulty,
    load_with_rejects,
    names,
    owners,
    ranges,
)
from tideline import flow
from tideline.domain.requests import KeptRejects
from tideline.errors import FatalError
from tideline.kafka.broker import Broker
from tideline.spark_jobs import write_batches
from tideline.spark_jobs.readers import kept_rejects

pytestmark = pytest.mark.topic(**WITH_A_BAD_RECORD)


@pytest.fixture
def topic(loading, topic) -> str:
    load_with_rejects(loading, topic)
    return topic


def test_rejects_that_fit_now_move_to_the_output_and_others_get_their_new_reason(loading, topic):
    before = coverage(loading)
    loading.transform(faulty({"n25": "three"}, left_out=["n5"]))
    assert loading.run(ALL) == [3]
    assert set(names(loading)) == set(range(30)) - {5, 7, 25}
    assert {offset: owners(loading)[offset] for offset in (3, 20)} == {3: 1, 20: 2}
    rejects = loading.rejects()
    assert {place: reason for place, (step, reason, _) in rejects.items() if step == "transform"} == {
        (0, 25): "ValueError: three"
    }
    assert rejects[0, 7][::2] == ("decode", b"{bad")
    assert set(rejects) == {(0, 7), (0, 25)}
    assert loading.rows("SELECT batch_id FROM tideline.reject ORDER BY kafka_offset") == [(1,), (2,)]

    assert counts_of(loading, 1) == {"n_read": 15, "n_written": 13, "n_rejected": 1, "n_filtered": 1, "n_gap": 0}
    assert counts_of(loading, 2) == {"n_read": 15, "n_written": 14, "n_rejected": 1, "n_filtered": 0, "n_gap": 0}
    assert counts_of(loading, 3) == {"n_read": 5, "n_written": 2, "n_rejected": 2, "n_filtered": 1, "n_gap": 18}
    assert (coverage(loading), loading.heads()) == (before, [30])
    assert batches(loading)[3] == ("redrive", "advanced")
    assert loading.staging_tables() == []

    loading.transform("")
    assert loading.run(ALL) == [4]
    assert set(loading.rejects()) == {(0, 7)}
    assert counts_of(loading, 2)["n_written"] == 15
    assert loading.published() == 28


def test_only_the_rejects_that_were_chosen_move(loading, topic):
    loading.transform("")
    left = {3, 5, 7, 20, 25}
    for chosen, moved in (
        (KeptRejects(reason_like="no such reason"), set()),
        (KeptRejects(batch_id=2, reason_like="two"), {25}),
        (KeptRejects(reason_like="ONE"), {3, 20}),
        (KeptRejects(batch_id=1), {5}),
    ):
        assert len(loading.run(chosen)) == (1 if moved else 0)
        left -= moved
        assert {offset for _, offset in loading.rejects()} == left
        assert set(names(loading)) == set(range(30)) - left


def test_kafka_need_not_hold_the_records_any_more(loading, topic, admin):
    admin.delete_topics([topic])[topic].result(180)
    until(lambda: not exists(admin, topic))
    loading.transform("")
    loading.run(ALL)
    assert (set(names(loading)), set(loading.rejects())) == (set(range(30)) - {7}, {(0, 7)})


WITH_ORIGIN = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint, name text, price numeric(12, 4),
    topic text, partition integer, "offset" bigint, milliseconds bigint, key bytea, value bytea, headers text,
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""
ORIGIN = {
    "records": """\
        import pyarrow as pa, pyarrow.compute as pc

        def records(batch):
            kafka = batch["kafka"].combine_chunks()
            for part in ("topic", "partition", "offset", "key", "value", "headers"):
                batch = batch.append_column(part, kafka.field(part))
            return batch.append_column("milliseconds", pc.divide(kafka.field("timestamp").cast(pa.int64()), 1000))
        """,
    "frame": """\
        from pyspark.sql import functions as F

        def records(batch):
            kafka = batch["kafka"].combine_chunks()
            for part in ("key", "value", "headers"):
                batch = batch.append_column(part, kafka.field(part))
            return batch

        def frame(df):
            parts = [F.col(f"kafka.{part}") for part in ("topic", "partition", "offset")]
            return df.select("*", *parts, F.unix_millis("kafka.timestamp").alias("milliseconds")).repartition(3)
        """,
}

COPIED = """\
    kafka = batch["kafka"].combine_chunks()
    for part in ("key", "value", "headers"):
        batch = batch.append_column(part, kafka.field(part))
    return batch
"""


@pytest.mark.parametrize("shape", ORIGIN)
def test_a_re_drive_gives_what_a_load_out_of_kafka_gives(loading, shape):
    """Key, value, headers and timestamp are equal to the byte, with both kinds of transform: the replay that follows changes nothing."""
    topic = records.create(loading.bootstrap, **{"message.timestamp.after.max.ms": str(2**63 - 1)})
    headers = [("any", bytes(range(256))), ("any", b"again"), ("empty", b""), ("null", None), ('qu"ote\n\u00fc', b"x")]
    producer = Producer({"bootstrap.servers": loading.bootstrap})
    kinds = [
        {"key": bytes(range(256)), "headers": headers, "timestamp": 1_700_000_000_123},
        {"key": None, "timestamp": 1},
        {"key": b"", "headers": [], "timestamp": 253_402_300_800_000},
        {"key": b"k", "timestamp": 9_000_000_000_000_000},
    ]
    for number, kind in enumerate(kinds):
        producer.produce(topic, records.record(number), **kind)
    producer.produce(topic, None, timestamp=1)
    assert producer.flush(20) == 0
    faults = {f"n{number}": "not yet" for number in range(len(kinds))}
    loading.declare(topic, target=WITH_ORIGIN, transform=faulty(faults) + COPIED)
    with (loading.folder / "transform.py").open("a") as file:
        file.write(
            "def frame(df): return df.selectExpr('*', 'kafka.topic', 'kafka.partition', 'kafka.offset', "
            "'unix_millis(kafka.timestamp) milliseconds')"
        )
    loading.run()
    assert (loading.published(), len(loading.rejects())) == (0, 5)
    loading.transform(ORIGIN[shape])
    loading.run(ALL)
    assert (loading.published(), set(loading.rejects())) == (4, {(0, 4)})
    redriven = everything(loading)
    loading.run(ranges(f"{topic}/0 [0, 5)", replace=True))
    assert everything(loading) == redriven
    assert loading.rows("SELECT milliseconds, encode(key, 'escape') FROM ads.output ORDER BY kafka_offset")[2:] == [
        (253_402_300_800_000, ""),
        (9_000_000_000_000_000, "k"),
    ]


@pytest.mark.parametrize("body", ["df.filter('false')", "df.limit(1)"])
def test_rejects_that_a_frame_does_not_read_count_as_filtered(loading, topic, body, monkeypatch):
    monkeypatch.setattr(kept_rejects, "SLICE_RECORDS", 1)
    loading.transform(f"def frame(df): return {body}")
    loading.run(ALL)
    left = loading.published() - 25
    assert left == (1 if "1" in body else 0)
    assert set(loading.rejects()) == {(0, 7)}
    assert counts_of(loading, 3) == {
        "n_read": 5, "n_written": left, "n_rejected": 1, "n_filtered": 4 - left, "n_gap": 18,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "value", "n_tasks"), [("SLICE_RECORDS", 2, 6), ("SLICE_BYTES", 1, 10)])
def test_many_rejects_are_read_by_many_tasks_and_each_once(loading, monkeypatch, limit, value, n_tasks):
    topic = records.create(loading.bootstrap, partitions=2)
    values = [f'{{"id": {n}, "name": "{"x" * n}", "price": "late"}}' for n in range(10)]
    records.produce(loading.bootstrap, topic, values, partitions=2)
    loading.declare(topic)
    loading.run()
    assert len(loading.rejects()) == 10
    ran, tasks = write_batches._run, []

    def run(*arguments):
        tasks.append(ran(*arguments))
        return tasks[-1]

    monkeypatch.setattr(write_batches, "_run", run)
    monkeypatch.setattr(kept_rejects, limit, value)
    loading.declare(topic, columns={"id": "bigint", "name": "string"})
    loading.run(ALL)
    assert (loading.rejects(), len(tasks[0])) == ({}, n_tasks)
    assert {row[0]: row[1] for row in loading.output().values()} == {n: "x" * n for n in range(10)}


def test_rejects_of_a_topic_and_of_the_one_before_it_go_back_to_their_own(loading, topic, admin):
    """Both are partition 0 of the same name; only the stream identifies the record."""
    recreate(admin, topic)
    records.produce(loading.bootstrap, topic, [records.record(n) for n in range(100, 130)])
    with loading.ledger() as ledger:
        flow.adopt_topic(ledger, Broker(loading.pipeline.source), loading.pipeline, topic, reason="recreated")
    loading.transform(faulty({"n103": "one", "n105": "two"}))
    loading.run()
    assert loading.rows(
        "SELECT kafka_offset, count(*)::int FROM tideline.reject GROUP BY 1 HAVING count(*) > 1 ORDER BY 1"
    ) == [
        (3, 2),
        (5, 2),
    ]
    loading.transform("")
    loading.run(ALL)
    assert loading.rows(
        "SELECT kafka_topic_id = (SELECT topic_id FROM tideline.stream ORDER BY stream_id LIMIT 1), id FROM ads.output"
        " WHERE kafka_offset IN (3, 5) ORDER BY id"
    ) == [(True, 3), (True, 5), (False, 103), (False, 105)]
    assert loading.rows("SELECT kafka_offset FROM tideline.reject") == [(7,)]
    assert (
        loading.rows(
            "SELECT id FROM ads.output o JOIN tideline.batch_range ON batch_id = tideline_batch"
            " JOIN tideline.stream USING (stream_id) WHERE topic_id <> kafka_topic_id"
        )
        == []
    )


def test_rows_that_belong_to_no_reject_are_refused(loading, topic):
    loading.transform("def frame(df): return df.withColumn('kafka', df.kafka.withField('offset', df.kafka.offset + 1))")
    before = everything(loading)
    with pytest.raises(FatalError, match="rows whose `kafka` is not a record of the batch"):
        loading.run(ALL)
    assert everything(loading) == before
