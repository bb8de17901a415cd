"""Whole loads into a Delta table, through Kafka, Spark and the ledger: every record is in the table once, or rejected, or filtered."""

import json
from decimal import Decimal

import pytest

import records
from loads.lake_tables import committed, files, into_lake, lake_owners, lake_query, lake_rows, output
from loads.loading import ALL, RENAMING, ranges
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError

pytestmark = pytest.mark.topic(partitions=3, records=30, others={7: b"{bad", 20: None})

TWICE = """\
import pyarrow as pa


def records(batch):
    both = pa.concat_tables([batch, batch]).sort_by("id")
    return both.append_column("line", pa.array([number % 2 for number in range(len(both))], pa.int64()))
"""
SPREAD = """\
from pyspark.sql import functions as F


def frame(df):
    both = df.withColumn("line", F.lit(1)).unionByName(df.withColumn("line", F.lit(2)))
    small = both.withColumn("small", F.when((F.col("id") == 3) & (F.col("line") == 2), F.lit(999.5)).otherwise(F.lit(1.0)))
    return small.repartition(4)
"""


@pytest.fixture
def topic(loading, lake, topic) -> str:
    """Load thirty records of three partitions as the batches 1 and 2; two of them are rejects."""
    loading.declare(topic, batch_records=15)
    into_lake(loading, lake)
    assert loading.run() == [1, 2]
    return topic


def test_every_record_is_in_the_table_once_or_a_reject(loading, topic):
    rows = lake_rows(loading)
    assert sorted(row[0] for row in rows.values()) == [n for n in range(30) if n not in {7, 20}]
    assert len(loading.rejects()) == 2
    assert not rows.keys() & loading.rejects().keys()
    assert rows[0, 0] == (0, "n0", Decimal("0.0000"))
    assert loading.rows(
        "SELECT state, sum(n_written)::int FROM tideline.batch JOIN tideline.batch_range USING (batch_id) GROUP BY 1"
    ) == [("advanced", 28)]
    assert committed(loading) == files(loading), "nothing is left over"
    assert loading.run() == []


def test_a_replay_replaces_the_rows_of_its_batch_in_one_commit_and_no_others(loading, topic):
    before, owners = lake_rows(loading), lake_owners(loading)
    table = output(loading).location.open()
    version = table.version()
    loading.transform(RENAMING)
    assert loading.run(OneBatch(batch_id=1, replace=True), reason="names") == [3]
    assert output(loading).location.open().version() == version + 1
    replaced = {place for place, row in lake_rows(loading).items() if row[1].startswith("new ")}
    assert {place for place, row in lake_rows(loading).items() if row != before[place]} == replaced
    assert len(replaced) == sum(owner == 3 for (owner,) in lake_query(loading, "SELECT tideline_batch FROM lake"))
    assert lake_rows(loading).keys() == before.keys()
    assert sorted(set(lake_query(loading, "SELECT DISTINCT tideline_batch FROM lake"))) == [(2,), (3,)]
    assert set(owners.values()) == {1, 2}
    assert loading.rows("SELECT state FROM tideline.batch WHERE batch_id = 1") == [("superseded",)]


def test_a_replay_of_a_part_keeps_the_other_rows_of_its_files(loading, topic):
    before = lake_rows(loading)
    loading.transform(RENAMING)
    assert loading.run(ranges(f"{topic}/0 [2, 4)", f"{topic}/1 [0, 8)", replace=True), reason="names") == [3]
    again = {(0, 2), (0, 3), *((1, offset) for offset in range(8))}
    for place, row in lake_rows(loading).items():
        renamed = (row[0], f"new {before[place][1]}", row[2])
        assert row == (renamed if place in again else before[place]), place
    loading.transform("")
    loading.run(OneBatch(batch_id=3, replace=True), reason="as it was")
    assert lake_rows(loading) == before


def test_rejects_that_fit_now_are_appended_as_rows_of_the_batch_that_had_rejected_them(loading, lake):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(n) for n in range(10)])
    loading.declare(name, batch_records=5)
    into_lake(loading, lake)
    loading.transform(
        """\
        def records(batch):
            for row in batch.to_pylist():
                if row["id"] in (3, 8):
                    raise ValueError("not yet")
            return batch
        """
    )
    assert loading.run() == [1, 2]
    assert set(loading.rejects()) == {(0, 3), (0, 8)}
    loading.transform("")
    assert loading.run(ALL) == [3]
    assert loading.rejects() == {}
    assert lake_owners(loading) == {offset: 1 + offset // 5 for offset in range(10)}


def test_rows_of_one_record_are_told_apart_by_their_item(loading, lake):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(n) for n in range(10)])
    loading.declare(name)
    into_lake(loading, lake, item="line")
    loading.transform(TWICE)
    assert loading.run() == [1]
    assert lake_query(
        loading, "SELECT count(*), count(DISTINCT kafka_offset), count(DISTINCT (kafka_offset, line)) FROM lake"
    ) == [(20, 10, 20)]


def test_several_rows_of_a_record_without_an_item_make_it_a_reject(loading, lake):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(n) for n in range(10)])
    loading.declare(name, fail_above=1.0)
    into_lake(loading, lake)
    loading.transform(
        """\
        import pyarrow as pa


        def records(batch):
            return pa.concat_tables([batch, batch.filter(pa.compute.equal(batch["id"], 4))])
        """
    )
    assert loading.run() == [1]
    assert sorted(lake_rows(loading)) == [(0, offset) for offset in range(10) if offset != 4]
    assert loading.rejects()[0, 4][:2] == (
        "store",
        "the transform makes several rows of this record that are not told apart: declare sink.item",
    )
    assert committed(loading) == files(loading)


def test_a_record_with_one_row_that_does_not_fit_is_rejected_with_all_its_rows(loading, lake):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(n) for n in range(10)])
    loading.declare(name)
    into_lake(loading, lake, item="line")
    loading.transform(SPREAD)
    loading.run()
    assert lake_query(loading, "SELECT count(*) FROM lake") == [(20,)]
    narrow = """\
        from pyspark.sql import functions as F


        def frame(df):
            both = df.withColumn("line", F.lit(1)).unionByName(df.withColumn("line", F.lit(2)))
            large = both.withColumn("small", F.when((F.col("id") == 13) & (F.col("line") == 2), F.lit(1e300)).otherwise(F.lit(1.0)))
            return large.withColumn("line", F.when(F.col("small") > 5, F.lit(2**40)).otherwise(F.col("line").cast("bigint"))).repartition(4)
        """
    loading.transform(narrow)
    records.produce(loading.bootstrap, name, [records.record(n) for n in range(10, 20)])
    loading.run()
    assert lake_query(loading, "SELECT kafka_offset, count(*) FROM lake GROUP BY 1 ORDER BY 1") == [
        (offset, 2) for offset in range(20) if offset != 13
    ]
    assert loading.rejects()[0, 13][:2] == (
        "store",
        "RefusedError: column line: Integer value 1099511627776 not in range: -2147483648 to 2147483647",
    )


def test_a_batch_of_rejects_only_is_published(loading, lake):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [b"{bad"] * 5)
    loading.declare(name, fail_above=1.0)
    into_lake(loading, lake)
    assert loading.run() == [1]
    assert (lake_rows(loading), len(loading.rejects())) == ({}, 5)


def test_partitions_hold_their_rows_and_nulls(loading, lake):
    name = records.create(loading.bootstrap)
    values = [json.dumps({"id": n, "name": None if n == 3 else f"a b/{n % 2}"}) for n in range(10)]
    records.produce(loading.bootstrap, name, values)
    loading.declare(name, batch_records=5)
    into_lake(loading, lake, partition_by=["name"])
    first = loading.run()
    before = lake_rows(loading)
    assert {row[1] for row in before.values()} == {None, "a b/0", "a b/1"}
    output(loading).location.open().optimize.compact()
    assert lake_rows(loading) == before
    loading.run(OneBatch(batch_id=first[0], replace=True), reason="again")
    assert lake_rows(loading) == before


@pytest.mark.parametrize(
    ("sink", "transform", "expected"),
    [
        ({"partition_by": ["day"]}, "", "day: sink.partition_by names it, expected a column of the transform"),
        ({"partition_by": ["price"]}, "", "price: sink.partition_by names it, expected text, an integer"),
        ({"item": "line"}, "", "line: sink.item names it, the transform does not return it"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_anything_is_read(loading, lake, sink, transform, expected):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(1)])
    loading.declare(name)
    into_lake(loading, lake, **sink)
    loading.transform(transform)
    with pytest.raises(FatalError, match=expected):
        loading.run()
    assert output(loading).location.open() is None
