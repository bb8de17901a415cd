"""A table partitioned by time: it is loaded, replayed into other partitions, and an old partition is detached."""

import pytest

import records
from given_ledger.ledgers import execute, plan, query, start_streams
from loads.loading import coverage, ranges
from tideline.domain.checks import Verdict
from tideline.domain.requests import OneBatch
from tideline.errors import FatalError
from tideline.reports.checks import ledger as checks
from tideline.sinks.postgres.target_table import sink_sql

pytestmark = pytest.mark.topic(records=30)

KEY = "kafka_topic_id, kafka_partition, kafka_offset"
TARGET = """\
CREATE SCHEMA ads;
CREATE TABLE ads.output (
    id bigint NOT NULL, name text, price numeric(12, 4), day date NOT NULL,
    kafka_topic_id uuid, kafka_partition integer, kafka_offset bigint, tideline_batch bigint NOT NULL,
    PRIMARY KEY ({key})
) PARTITION BY RANGE (day);
CREATE TABLE ads.output_1 PARTITION OF ads.output FOR VALUES FROM ('2026-11-01') TO ('2026-11-02');
CREATE TABLE ads.output_2 PARTITION OF ads.output FOR VALUES FROM ('2026-11-02') TO ('2026-11-03');
CREATE TABLE ads.output_3 PARTITION OF ads.output FOR VALUES FROM ('2026-11-03') TO ('2026-11-04');
"""
BY_DAY = TARGET.format(key=f"{KEY}, day")
ON_DAY = """
    import datetime, pyarrow as pa
    def records(batch):
        days = [datetime.date(2026, 11, {day}) for n in batch["id"].to_pylist()]
        return batch.append_column("day", pa.array(days, pa.date32()))
"""
TEN_A_DAY = ON_DAY.format(day="1 + n // 10")


@pytest.fixture
def topic(loading, topic) -> str:
    """Load thirty records in one partition, ten of each of three days, as the batches 1, 2 and 3."""
    loading.declare(topic, target=BY_DAY, transform=TEN_A_DAY, batch_records=10)
    assert loading.run() == [1, 2, 3]
    return topic


def days(loading) -> dict[int, int]:
    """Return by offset the day of each row; fail if an offset is there twice."""
    rows = loading.rows("SELECT kafka_offset, day FROM ads.output")
    found = {offset: day.day for offset, day in rows}
    assert len(found) == len(rows)
    return found


def test_a_table_partitioned_by_day_is_loaded_replayed_and_rid_of_an_old_day(loading, topic):
    assert days(loading) == {n: 1 + n // 10 for n in range(30)}
    loading.transform(ON_DAY.format(day="3"))
    assert loading.run(OneBatch(batch_id=2, replace=True)) == [4]
    assert days(loading) == {n: 3 if n >= 10 else 1 for n in range(30)}

    loading.execute("ALTER TABLE ads.output DETACH PARTITION ads.output_1")
    loading.transform(ON_DAY.format(day="2"))
    assert loading.run(ranges(f"{topic}/0 [5, 15)", replace=True)) == [5]
    # A detached partition belongs to its owner: a replay of its offsets writes them again, into the remaining partitions.
    assert days(loading) == {n: 2 if n < 15 else 3 for n in range(5, 30)}
    assert loading.rows("SELECT count(*)::int FROM ads.output_1") == [(10,)]
    assert coverage(loading) == [(0, 5, 1), (5, 15, 5), (15, 20, 4), (20, 30, 3)]
    with loading.ledger() as ledger, ledger.transaction():
        found = [*checks.laws(ledger, "loads"), checks.output(ledger, loading.pipeline)]
    assert {check.verdict for check in found} == {Verdict.OK}


TWO_DAYS = """
    import datetime, pyarrow as pa
    def records(batch):
        twice = pa.concat_tables([batch, batch])
        days = [datetime.date(2026, 11, 1 + n // len(batch)) for n in range(len(twice))]
        return twice.append_column("day", pa.array(days, pa.date32()))
"""


def test_two_rows_of_one_record_are_refused_although_their_partitions_differ(loading):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(0)])
    loading.declare(name, target=BY_DAY, transform=TWO_DAYS)
    assert "several rows for the record at offset 0 of stream 1" in loading.refusal(FatalError)


@pytest.mark.parametrize("key", [f"day, {KEY}", f"{KEY}, day, id"])
def test_a_key_by_which_replaced_rows_are_not_found_or_that_holds_more_is_refused(loading, key):
    name = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, name, [records.record(0)])
    loading.declare(name, target=TARGET.format(key=key), transform=TEN_A_DAY)
    assert f"no primary or unique key on exactly ({KEY}), or on these with" in loading.refusal(FatalError)


def test_a_replay_deletes_by_the_index_of_each_partition(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (500, 520)})
    execute(ledger, BY_DAY)
    execute(
        ledger,
        "INSERT INTO ads.output SELECT n, NULL, NULL, date '2026-11-01' + mod(n, 3), topic_id, mod(n, 5), n / 5, 1"
        " FROM tideline.stream, generate_series(0, 59999) n",
    )
    execute(ledger, "ANALYZE")
    delete = sink_sql("delete_replaced").string.replace("{target}", "ads.output")
    plan_of = "\n".join(row[0] for row in query(ledger, f"EXPLAIN {delete.replace('%(batch_id)s', str(batch_id))}"))
    assert "Seq Scan on output" not in plan_of
    for number in (1, 2, 3):
        assert f"Scan using output_{number}_pkey" in plan_of or f"Scan on output_{number}_pkey" in plan_of
