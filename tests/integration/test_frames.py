"""`frame` of transform.py: it sees the whole batch, and the counts add up for every transformation."""

import json

import pytest

import records
from test_sink import target
from tideline.errors import FatalError, RetryableError
from tideline.spark_jobs import write_batches

pytestmark = pytest.mark.topic(partitions=2, records=40)

IMPORTS = "from pyspark.sql import Window, functions as F\nfrom tideline.transforms import dimension\n"
WITH_OFFER = """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.output (
    id bigint NOT NULL,
    name text,
    price numeric(12, 4),
    {more},
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset)
);
"""


def frame(body: str) -> str:
    return f"{IMPORTS}def frame(df):\n    return {body}\n"


def ids(loading):
    return sorted(row[0] for row in loading.rows("SELECT id FROM ads.output"))


def counts(read, written, *, rejected=0, filtered=0):
    return {"n_read": read, "n_written": written, "n_rejected": rejected, "n_filtered": filtered, "n_gap": 0}


def test_a_join_with_a_dimension(loading, topic):
    loading.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.offers (id bigint, rate numeric(6, 3), code uuid, tags text[], opened date, seen timestamptz)",
        "INSERT INTO shop.offers SELECT n, n / 8.0, md5(n::text)::uuid, ARRAY['a', n::text], '2026-01-01', '2026-01-01Z'"
        " FROM generate_series(0, 29) n",
    )
    more = "rate numeric(6, 3), code uuid, tags text[], opened date, seen timestamptz"
    loading.declare(
        topic,
        transform=frame("df.join(dimension(df.sparkSession, 'shop.offers'), 'id')"),
        target=WITH_OFFER.format(more=more),
    )
    loading.run()
    columns = "id, rate, code, tags, opened, seen"
    assert loading.rows(f"SELECT {columns} FROM ads.output ORDER BY id") == loading.rows(
        f"SELECT {columns} FROM shop.offers ORDER BY id"
    )
    assert loading.counts() == counts(40, 30, filtered=10)


@pytest.mark.parametrize(
    "body",
    [
        "df.join(dimension(df.sparkSession, 'shop.offers'), 'id')",
        "df.limit(0).unionByName(df.filter('false'))",
    ],
)
def test_records_that_a_frame_does_not_read_count_as_filtered(loading, topic, body):
    """Spark does not even read Kafka if the result is known to be empty."""
    loading.execute("CREATE SCHEMA shop", "CREATE TABLE shop.offers (id bigint)")
    loading.declare(topic, transform=frame(body), gaps="allowed")
    loading.run()
    assert (ids(loading), loading.counts()) == ([], counts(40, 0, filtered=40))


def test_parts_of_a_partition_that_a_frame_does_not_read_are_no_gaps(loading, monkeypatch):
    """A limit that is reached ends the task of the first part early; the tasks of the other parts read to their ends."""
    session = write_batches.session

    def small_batches(name):
        spark = session(name)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
        return spark

    monkeypatch.setattr(write_batches, "session", small_batches)
    topic = records.create(loading.bootstrap)
    long = "x" * 500
    records.produce(loading.bootstrap, topic, (f'{{"id": {n}, "name": "{long}"}}' for n in range(12_000)))
    body = "df.filter('kafka.offset < 4000').limit(3)"
    loading.declare(topic, transform=frame(body), gaps="allowed", limits={"split_records": 4_000})
    loading.run()
    assert loading.counts() == counts(12_000, 3, filtered=11_997)


def test_a_window_sees_the_whole_batch(loading, topic):
    body = "df.withColumn('rank', F.row_number().over(Window.orderBy(F.desc('id'))))"
    loading.declare(topic, transform=frame(body), target=WITH_OFFER.format(more="rank integer"))
    loading.run()
    assert loading.rows("SELECT id, rank FROM ads.output ORDER BY id") == [(n, 40 - n) for n in range(40)]
    assert loading.counts() == counts(40, 40)


def test_an_aggregation_that_keeps_the_last_record_of_each_group(loading, topic):
    body = "df.groupBy((F.col('id') % 5).alias('id')).agg(F.sum('price').cast('decimal(12,4)').alias('price'), F.max('kafka').alias('kafka'))"
    loading.declare(topic, transform=frame(body))
    loading.run()
    assert loading.rows("SELECT id, price FROM ads.output ORDER BY id") == [
        (rest, sum(n for n in range(40) if n % 5 == rest) / 4) for rest in range(5)
    ]
    assert loading.counts() == counts(40, 5, filtered=35)


def test_a_frame_that_reads_its_input_twice_counts_it_once(loading, topic):
    body = "df.join(df.groupBy((F.col('id') + 1).alias('id')).agg(F.max('price').alias('before')), 'id').drop('before')"
    records.produce(loading.bootstrap, topic, [b"{bad"])
    loading.declare(topic, transform=frame(body))
    loading.run()
    assert (ids(loading), loading.counts()) == ([*range(1, 40)], counts(41, 39, rejected=1, filtered=1))


def test_records_comes_before_frame(loading, topic):
    text = "def records(batch): return batch.filter(pc.less(batch['id'], 30))\nimport pyarrow.compute as pc\n"
    loading.declare(topic, transform=text + frame("df.filter('id >= 10')"))
    loading.run()
    assert (ids(loading), loading.counts()) == ([*range(10, 30)], counts(40, 20, filtered=20))


def test_rejects_before_and_behind_a_frame_keep_their_bytes(loading):
    topic = records.create(loading.bootstrap)
    bad = {
        2: b"{bad",
        4: None,
        6: b'{"id": 6, "price": 5000}',
        8: b'{"name": "no id"}',
        10: b'{"id": 10, "name": "raise"}',
    }
    records.produce(loading.bootstrap, topic, (bad.get(n, records.record(n)) for n in range(20)))
    text = """\
def records(batch):
    if "raise" in batch["name"].to_pylist():
        raise ValueError("no")
    return batch
"""
    loading.declare(topic, transform=text + frame("df.repartition(3).filter('id IS NULL OR id < 15')"))
    loading.run()
    rejects = loading.rejects()
    assert {offset: value for (_, offset), (_, _, value) in rejects.items()} == bad
    assert {offset: step for (_, offset), (step, _, _) in rejects.items()} == {
        2: "decode", 4: "decode", 6: "store", 8: "store", 10: "transform",
    }  # fmt: skip
    assert ids(loading) == [n for n in range(15) if n not in bad]
    assert loading.counts() == counts(20, 10, rejected=5, filtered=5)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("df.withColumn('kafka', df.kafka.withField('offset', df.kafka.offset + 1000))", "not a record of the batch"),
        ("df.withColumn('kafka', df.kafka.withField('partition', F.lit(7)))", "/7, which the batch does not read"),
    ],
)
def test_rows_that_belong_to_no_record_are_refused(loading, topic, body, problem):
    loading.declare(topic, transform=frame(body))
    text = loading.refusal(FatalError)
    assert problem in text
    assert len(text) < 500


def test_a_record_of_which_a_frame_gives_two_rows_with_one_key_is_a_reject(loading, topic):
    loading.declare(topic, transform=frame("df.unionByName(df)"))
    loading.run()
    assert loading.output() == {}
    assert all("output_pkey" in reason for _, reason, _ in loading.rejects().values())
    assert loading.counts()["n_rejected"] == loading.counts()["n_read"] > 0


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("df.drop('kafka')", "must return the column `kafka` unchanged"),
        ("df.withColumn('kafka', df.kafka.offset)", "must return the column `kafka` unchanged"),
        ("df.select('nope', 'kafka')", "`frame` raised AnalysisException: [UNRESOLVED_COLUMN"),
        ("df.nope()", "`frame` raised "),
        ("df.collect()", "must return a DataFrame, found list"),
        ("df.select('*', 'name')", "name: produced twice"),
        ("df.join(dimension(df.sparkSession, 'shop.nowhere'), 'id')", "shop.nowhere"),
    ],
)
def test_a_frame_that_cannot_work_is_refused(loading, topic, body, problem):
    loading.declare(topic, transform=frame(body))
    text = loading.refusal(FatalError)
    assert problem in text
    assert len(text) < 500
    assert loading.staging_tables() == []


def test_an_error_inside_of_a_frame_is_reported_in_one_line(loading, topic):
    body = "df.withColumn('name', F.udf(lambda n: str(1 // (n - 17)))('id'))"
    loading.declare(topic, transform=frame(body))
    text = loading.refusal(RetryableError)
    assert "ZeroDivisionError" in text
    assert [line.split(":")[0] for line in text.splitlines()[1:]] == ["  Next", "  More"]


@pytest.mark.parametrize("columns", [["a.b"], ["a`b"], ["a", "A"]])
def test_columns_that_spark_cannot_tell_apart_are_no_reason_to_try_again(loading, columns):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [json.dumps(dict.fromkeys(columns, 1))])
    table = target(", ".join(f'"{name}" int' for name in columns))
    loading.declare(topic, columns=dict.fromkeys(columns, "int"), transform=frame("df"), target=table)
    assert "Spark cannot resolve the columns" in loading.refusal(FatalError)
