"""An upsert table holds the newest record of each key, and what was deleted stays deleted."""

import json

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import records
from given_topics.topics import until
from loads.loading import Loading
from loads.upserts import TARGET, declare, reduced, send, table, tombstones, whole
from test_replay import EVERYTHING
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.errors import FatalError, RetryableError
from tideline.spark_jobs import write_batches
from tideline.spark_jobs.tasks import Deletions

EVENTS = [(1, "a"), (2, "b"), (3, "c"), (1, "d"), (2, None), (4, "e"), (3, None), (3, "f"), (5, None), (1, "g")]


@pytest.mark.parametrize("batch_records", [3, 100])
def test_the_table_holds_the_newest_record_of_each_key_and_a_replay_changes_nothing(loading, topic, batch_records):
    declare(loading, topic, batch_records=batch_records)
    send(loading, topic, EVENTS)
    batch_ids = loading.run()
    assert table(loading) == reduced(EVENTS) == {1: "g", 3: "f", 4: "e"}
    assert tombstones(loading) == {2: 4, 3: 6, 5: 8}
    counts = loading.counts()
    assert (counts["n_read"], counts["n_written"], counts["n_filtered"]) == (10, 10, 0)
    before = whole(loading)
    for batch_id in reversed(batch_ids):
        loading.run(OneBatch(batch_id=batch_id, replace=True))
        assert (whole(loading), tombstones(loading)) == (before, {2: 4, 3: 6, 5: 8})
    loading.run(EVERYTHING)
    assert (whole(loading), tombstones(loading)) == (before, {2: 4, 3: 6, 5: 8})
    assert loading.staging_tables() == []


def test_batches_may_be_published_in_any_order(loading, topic):
    declare(loading, topic, batch_records=2)
    send(loading, topic, EVENTS)
    batch_ids = loading.plan("one")
    loading.write("one", [*reversed(batch_ids)])
    assert table(loading) == reduced(EVENTS)


def test_a_rejected_record_that_is_redriven_late_does_not_win_over_a_newer_one(loading, topic):
    declare(loading, topic, transform=_refusing("late", "lost", "new"))
    send(loading, topic, [(1, "lost"), (1, "b"), (2, "late"), (3, "lost"), (3, None), (4, "a"), (4, "new")])
    loading.run()
    assert table(loading) == {1: "b", 4: "a"}
    assert len(loading.rejects()) == 4
    loading.transform("")
    loading.run(KeptRejects())
    assert table(loading) == {1: "b", 2: "late", 4: "new"}
    assert loading.rejects() == {}


def test_a_rejected_tombstone_deletes_when_it_is_redriven(loading, topic):
    declare(loading, topic, tombstones="reject")
    send(loading, topic, [(1, "a"), (2, "b"), (1, None), (2, None), (2, "c")])
    loading.run()
    assert table(loading) == {1: "a", 2: "c"}
    declare(loading, topic)
    loading.run(KeptRejects())
    assert table(loading) == {2: "c"}
    assert loading.rejects() == {}


def _refusing(*names):
    return f"""
        import pyarrow.compute as pc

        def records(batch):
            for name in batch["name"].to_pylist():
                if name in {names!r}:
                    raise ValueError(name)
            return batch
    """


def test_a_replay_takes_back_what_a_changed_transform_no_longer_gives(loading, topic):
    declare(loading, topic, batch_records=2)
    send(loading, topic, [(1, "a"), (2, "b"), (1, "c"), (3, "d")])
    first, second = loading.run()
    loading.transform('import pyarrow.compute as pc\ndef records(b): return b.filter(pc.not_equal(b["name"], "c"))')
    loading.run(OneBatch(batch_id=second, replace=True))
    assert table(loading) == {2: "b", 3: "d"}, "the older record of the key was not kept"
    loading.run(OneBatch(batch_id=first, replace=True))
    assert table(loading) == {1: "a", 2: "b", 3: "d"}, "it comes back when its offsets are replayed"


def test_a_replay_that_no_longer_deletes_takes_its_marks_back(loading, topic):
    declare(loading, topic)
    send(loading, topic, [(1, "a"), (1, None), (2, None)])
    loading.run()
    assert (table(loading), tombstones(loading)) == ({}, {1: 1, 2: 2})
    declare(loading, topic, tombstones="reject")
    loading.run(EVERYTHING)
    assert (table(loading), tombstones(loading)) == ({1: "a"}, {})


def test_a_frame_writes_rows_and_tombstones_pass_it_by(loading, topic):
    body = "from pyspark.sql import functions as F\ndef frame(df): return df.withColumn('name', F.upper('name'))"
    declare(loading, topic, transform=body)
    send(loading, topic, EVENTS)
    loading.run()
    assert table(loading) == {1: "G", 3: "F", 4: "E"}
    counts = loading.counts()
    assert (counts["n_read"], counts["n_written"], counts["n_filtered"]) == (10, 10, 0)


COMPACTED = {
    "cleanup.policy": "compact",
    "delete.retention.ms": "0",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "100",
    "min.compaction.lag.ms": str(2**40),
}
"""Settings of a topic whose tombstones go soon, as soon as the last one is lowered."""


def compact(admin, loading, topic):
    """Let the brokers remove the tombstones of a topic."""
    lowered = ConfigResource(
        ConfigResource.Type.TOPIC,
        topic,
        incremental_configs=[ConfigEntry("min.compaction.lag.ms", "0", incremental_operation=AlterConfigOpType.SET)],
    )
    admin.incremental_alter_configs([lowered])[lowered].result(180)

    end = 4

    def gone():
        """Produce to end the newest segment, which is never compacted; return whether the tombstone at offset 2 is gone."""
        nonlocal end
        send(loading, topic, [(9, "later")])
        end += 1
        return (0, 2) not in records.consume(loading.bootstrap, topic, end)

    until(gone)


def test_a_tombstone_that_is_compacted_away_between_two_reads_publishes_nothing(loading, admin, monkeypatch):
    """It was counted, and would have deleted nothing: its row would stay for ever."""
    topic = records.create(loading.bootstrap, **COMPACTED)
    declare(loading, topic, transform="def frame(df): return df")
    send(loading, topic, [(1, "a"), (2, "b")])
    loading.run()
    send(loading, topic, [(1, None), (2, "c")])
    run = write_batches._run

    def late(frame, tasks):
        if isinstance(tasks, Deletions):
            compact(admin, loading, topic)
        return run(frame, tasks)

    monkeypatch.setattr(write_batches, "_run", late)
    [batch_id] = loading.plan("compacted")
    with pytest.raises(RetryableError, match="the first read has seen 1 tombstones, the second one 0"):
        loading.write("compacted", [batch_id])
    assert table(loading) == {1: "a", 2: "b"}
    assert loading.states()[-1] == "failed"


def test_a_key_from_two_partitions_is_refused_by_name_within_a_batch_and_between_batches(loading):
    topic = records.create(loading.bootstrap, partitions=2)
    declare(loading, topic)
    send(loading, topic, [(1, "a"), (2, "b")], partitions=2)
    loading.run()
    send(loading, topic, [(2, "c")])
    [batch_id] = loading.plan("two")
    with pytest.raises(FatalError, match=f"one key in {topic}/0 and {topic}/1"):
        loading.write("two", [batch_id])
    assert table(loading) == {1: "a", 2: "b"}


@pytest.mark.parametrize("second", ["c", None])
def test_a_key_from_two_partitions_of_one_batch_is_refused_by_name(loading, second):
    topic = records.create(loading.bootstrap, partitions=2)
    declare(loading, topic)
    send(loading, topic, [(1, "a"), (1, second)], partitions=2)
    assert "expected each key of ads.output from one partition" in loading.refusal(FatalError)


def test_an_order_compares_records_of_all_partitions(loading):
    topic = records.create(loading.bootstrap, partitions=2)
    target = TARGET.replace("name text", "name text NOT NULL")
    declare(loading, topic, order=["name"], target=target, batch_records=1)
    send(loading, topic, [(1, "b"), (1, "c"), (1, "a"), (2, "x"), (1, "c"), (2, "w")], partitions=2)
    batch_ids = loading.plan("one")
    loading.write("one", [*reversed(batch_ids)])
    assert whole(loading) == [(1, "c", 1, 0, 2), (2, "x", 1, 1, 1)]


def test_a_record_with_two_rows_of_one_key_is_a_reject(loading, topic):
    twice = """
        import pyarrow as pa, pyarrow.compute as pc

        def records(batch):
            return pa.concat_tables([batch, batch.filter(pc.equal(batch["name"], "b"))])
    """
    declare(loading, topic, transform=twice)
    send(loading, topic, [(1, "a"), (2, "b"), (3, "c")])
    loading.run()
    assert table(loading) == {1: "a", 3: "c"}
    assert [(place, reason) for place, (_, reason, _) in loading.rejects().items()] == [
        ((0, 1), "the transform gives two rows with the same key for this record")
    ]


def test_where_the_newest_record_is_refused_the_newest_that_the_table_takes_is_there(loading, topic):
    target = (
        TARGET + "CREATE TABLE ads.known (name text PRIMARY KEY); INSERT INTO ads.known VALUES ('a'), ('b'), ('c');"
    )
    target += "ALTER TABLE ads.output ADD FOREIGN KEY (name) REFERENCES ads.known;"
    declare(loading, topic, target=target)
    send(loading, topic, [(1, "a"), (1, "b"), (1, "x"), (1, "y"), (2, "x"), (3, "z"), (3, "c"), (4, "c")])
    loading.run()
    assert table(loading) == {1: "b", 3: "c", 4: "c"}
    assert sorted(loading.rejects()) == [(0, 2), (0, 3), (0, 4)]
    assert "violates foreign key constraint" in loading.rejects()[0, 2][1]


def test_two_pipelines_share_a_table_and_newer_wins(loading, topic, tmp_path):
    other = Loading(folder=tmp_path / "others", bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)
    another = records.create(loading.bootstrap)
    declare(loading, topic, shared=True)
    declare(other, another, shared=True)
    send(loading, topic, [(1, "a"), (2, "b")])
    send(other, another, [(3, "c"), (4, "d")])
    loading.run()
    other.run()
    assert table(loading) == {1: "a", 2: "b", 3: "c", 4: "d"}
    send(other, another, [(1, "z")])
    batch_ids = other.plan("clash")
    with pytest.raises(FatalError, match=f"one key in {another}/0 and {topic}/0"):
        other.write("clash", batch_ids)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("PRIMARY KEY", "NOT NULL"), "no primary or unique key on exactly (id), the columns of sink.key"),
        (("id bigint PRIMARY KEY", "id bigint UNIQUE"), "id: must be NOT NULL"),
        (("kafka_offset bigint NOT NULL", "kafka_offset bigint"), "kafka_offset: must be NOT NULL"),
    ],
)
def test_a_table_that_cannot_be_upserted_is_refused_before_the_read(loading, topic, change, problem):
    declare(loading, topic, target=TARGET.replace(*change))
    send(loading, topic, [(1, "a")])
    assert problem in loading.refusal(FatalError)


def test_a_partitioned_table_is_upserted_by_its_key(loading, topic):
    target = TARGET.replace("\n);", "\n) PARTITION BY HASH (id);") + "".join(
        f"CREATE TABLE ads.output_{n} PARTITION OF ads.output FOR VALUES WITH (MODULUS 2, REMAINDER {n});"
        for n in (0, 1)
    )
    declare(loading, topic, target=target, batch_records=4)
    send(loading, topic, EVENTS)
    loading.run()
    loading.run(EVERYTHING)
    assert table(loading) == reduced(EVENTS)


def test_a_key_of_several_columns_with_odd_names(loading, topic):
    value = {"format": "json", "columns": {"id": "bigint", "per%cent": "string", "name": "string", "price": "bigint"}}
    target = TARGET.replace("id bigint PRIMARY KEY", 'id bigint, "per%cent" text').replace(
        "name text", "name text, PRIMARY KEY (id, name)"
    )
    loading.declare(
        topic, target=target, sink={"mode": "upsert", "key": ["id", "name"]}, columns=value["columns"], batch_records=2
    )
    rows = [(1, "a", "x"), (1, "b", "y"), (1, "a", "z"), (2, "a", "w")]
    values = [json.dumps({"id": i, "name": n, "per%cent": p, "price": 1}) for i, n, p in rows]
    records.produce(loading.bootstrap, topic, values)
    loading.run()
    assert loading.rows('SELECT id, name, "per%%cent" FROM ads.output ORDER BY 1, 2') == [
        (1, "a", "z"),
        (1, "b", "y"),
        (2, "a", "w"),
    ]
