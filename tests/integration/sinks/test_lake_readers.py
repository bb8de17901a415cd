"""Other programs read the tables that loads have written: Spark's Delta reader, and DuckDB's. Also from S3."""

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import pytest

from loads import lake_tables
from loads.lake_tables import into_lake, lake_owners, lake_rows, output
from tideline.domain.requests import OneBatch
from tideline.sinks.delta import delta_upkeep

pytestmark = pytest.mark.topic(partitions=2, records=20)


@pytest.fixture
def topic(loading, topic):
    loading.declare(topic, batch_records=10)
    return topic


def test_spark_and_duckdb_read_what_loads_and_a_replay_have_written(loading, topic, tmp_path, other_spark):
    lake = tmp_path / "lake"
    into_lake(loading, lake_tables.in_folder(tmp_path), partition_by=["name"])
    first, _ = loading.run()
    loading.run(OneBatch(batch_id=first, replace=True), reason="again")
    expected = lake_rows(loading)
    assert len(expected) == 20
    read = other_spark.rows(lake)
    by_spark = {(row["kafka_partition"], row["kafka_offset"]): (row["id"], row["name"], row["price"]) for row in read}
    assert (len(read), by_spark) == (20, expected)
    assert by_duckdb(lake) == sorted((*place, *row) for place, row in expected.items())
    delta_upkeep.of_table(output(loading))
    assert by_duckdb(lake) == sorted((*place, *row) for place, row in expected.items())


def by_duckdb(lake: Path) -> list[tuple[Any, ...]]:
    """Return the rows that DuckDB's own Delta reader finds."""
    (extension,) = Path(duckdb_extension_delta.__file__).parent.glob("extensions/*/delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        columns = "kafka_partition, kafka_offset, id, name, price"
        return connection.execute(f"SELECT {columns} FROM delta_scan(?) ORDER BY ALL", [str(lake)]).fetchall()


def test_loads_and_a_replay_into_an_object_store(loading, topic, store, monkeypatch):
    lake = lake_tables.in_store(store)
    for name, value in lake.secrets.items():
        monkeypatch.setenv(name, value)
    into_lake(loading, lake)
    first, second = loading.run()
    before = lake_rows(loading)
    loading.run(OneBatch(batch_id=second, replace=True), reason="again")
    assert lake_rows(loading) == before
    assert len(before) == 20
    assert set(lake_owners(loading).values()) == {first, 3}
