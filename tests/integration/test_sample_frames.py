"""A sample of a pipeline with a `frame` becomes the rows that Spark makes of it, in this process."""

import json
from decimal import Decimal

import pytest

from author_pipelines import author
from given_ledger.ledgers import execute
from tideline.authoring import target_sql
from tideline.declaration import pipelines
from tideline.errors import FatalError
from tideline.settings import PROJECT
from tideline.testing import trial
from tideline_stack import spark as spark_setup

SHIPPED = PROJECT / "include" / "pipelines" / "impressions"
LINES = [b'{"order_id": 3, "amount": 1}', b"no JSON", b'{"order_id": 7, "amount": 2}', b'{"order_id": 3, "amount": 4}']
JOINED = """
    from pyspark.sql import functions as F
    from tideline.transforms import dimension

    def records(batch):
        return batch.drop_columns("amount")

    def frame(df):
        return df.join(F.broadcast(dimension(df.sparkSession, "shop.names")), "order_id")
"""
GROUPED = """
    from pyspark.sql import functions as F

    SUM = F.sum("amount")  # needs a session when it is imported

    def frame(df):
        return df.groupBy("order_id").agg(F.max("kafka").alias("kafka"), SUM.alias("amount"))
"""
FRAME = "def frame(df):\n    return df\n"
FAILING = {
    "a column that does not exist": ("df.select('kafka', 'prize')", "`frame` raised AnalysisException: .*prize"),
    "no column kafka": ("df.drop('kafka')", "must return the column `kafka` unchanged"),
    "an error of a row": ("df.selectExpr('kafka', 'order_id / 0 AS n')", "`frame` failed: .*DIVIDE_BY_ZERO"),
    "bytes of the record": (
        "df.withColumn('bytes', df.kafka.value)",
        "(?s)No such struct field `value`.*has topic, partition, offset, timestamp, and neither key, value nor headers",
    ),
    "no frame": ("5", "`frame` must return a DataFrame, found int"),
}


@pytest.fixture(autouse=True)
def _java(spark):
    """Use the Spark of the tests, instead of a second one with other settings."""


def test_a_frame_is_joined_with_a_dimension_of_the_database(tmp_path, monkeypatch, ledger, ledger_url):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    execute(ledger, "CREATE SCHEMA shop; CREATE TABLE shop.names (order_id bigint, name text)")
    execute(ledger, "INSERT INTO shop.names VALUES (3, 'three')")
    found = trial(author(tmp_path / "orders", transform=JOINED), LINES)
    assert found.rows == [{"order_id": 3, "name": "three"}] * 2
    assert (found.lines, found.n_read, found.n_written, found.n_filtered) == ([1, 4], 4, 2, 1)
    assert [reject.line for reject in found.rejects] == [2]


def test_the_shipped_pipeline_is_tried_with_its_offers(monkeypatch, ledger, ledger_url):
    monkeypatch.setenv("TIDELINE_LEDGER_URL", ledger_url)
    execute(ledger, (SHIPPED / "offers.sql").read_text().replace("%", "%%"))
    impression = {"impression_id": "7", "offer_id": 2, "price_micros": 1_500_000, "shown_at": "2026-11-21T14:00:00Z"}
    values = [json.dumps({**impression, **change}).encode() for change in ({}, {"device": "robot"}, {"offer_id": 999})]
    found = trial(SHIPPED, values)
    assert [(row["price"], row["category"]) for row in found.rows] == [(Decimal("1.5"), "food"), (Decimal("1.5"), None)]
    assert (found.lines, found.rejects, found.n_filtered) == ([1, 3], [], 1)
    produced = found.table.schema
    assert target_sql.read(pipelines.load(SHIPPED)).problems(produced, pipelines.load(SHIPPED)) == []


def test_a_dimension_without_a_database_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("TIDELINE_LEDGER_URL", raising=False)
    with pytest.raises(FatalError, match=r"TIDELINE_LEDGER_URL is not set; it holds .* `dimension` reads shop\.names"):
        trial(author(tmp_path / "orders", transform=JOINED), LINES)


def test_groups_are_rows_of_their_newest_records(tmp_path):
    found = trial(author(tmp_path / "orders", transform=GROUPED), LINES)
    assert [(row["order_id"], row["amount"]) for row in found.rows] == [(7, 2), (3, 5)]
    assert (found.lines, found.n_written, found.n_filtered) == ([3, 4], 2, 1)


def test_a_first_batch_without_rows_loses_none_of_the_others(tmp_path):
    """Spark makes no rows of a table whose first chunk is empty."""
    transform = f"def records(batch):\n    return batch\n{FRAME}"
    lines = [b"no JSON"] * 20_000 + [b'{"order_id": 1}'] * 2
    assert trial(author(tmp_path / "orders", transform=transform), lines).lines == [20_001, 20_002]


@pytest.mark.parametrize("case", FAILING)
def test_a_frame_that_fails_is_named(tmp_path, case):
    returned, found = FAILING[case]
    folder = author(tmp_path / "orders", transform=f"def frame(df):\n    return {returned}\n")
    with pytest.raises(FatalError, match=found):
        trial(folder, LINES)


def test_spark_is_started_where_none_runs(tmp_path, cli):
    """In a process of its own, as an author runs it."""
    author(tmp_path / "sampled", transform=GROUPED)
    cli.variables["TIDELINE_SPARK_PROPERTIES"] = str(spark_setup.configure(tmp_path / ".spark"))
    (tmp_path / "sample.jsonl").write_bytes(b"\n".join(LINES))
    done = cli("test", "sampled", str(tmp_path / "sample.jsonl"))
    assert "read 4 = written 2 + rejected 1 + filtered 1" in done.stdout
