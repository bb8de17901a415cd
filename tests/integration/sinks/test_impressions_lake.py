"""The pipeline `impressions_lake`: by the very transform of `impressions`, the same rows in a Delta table as in the table."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import psycopg2
import pytest

from loads.lake_tables import lake_query
from tideline.declaration import pipelines
from tideline.domain.requests import OneBatch
from tideline.settings import PROJECT
from tideline.statements import statement
from tideline_demo import impressions as demo_impressions
from tideline_demo import lake as demo_lake

FOLDERS = PROJECT / "include" / "pipelines"
COLUMNS = "kafka_partition, kafka_offset, impression_id, offer_id, country, shown_at, price, advertiser, category"
OUTPUT = statement("tideline_demo", "list_output")


@pytest.fixture
def declared(loading, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDELINE_LAKE", str(tmp_path / "lake"))
    connection = psycopg2.connect(loading.url)
    with connection, connection.cursor() as cursor:
        cursor.execute((FOLDERS / "impressions" / "offers.sql").read_text())
    connection.close()
    return replace(loading, folder=FOLDERS / "impressions"), replace(loading, folder=FOLDERS / "impressions_lake")


def test_the_transform_is_the_one_of_impressions_and_no_copy():
    transform = FOLDERS / "impressions_lake" / "transform.py"
    assert transform.is_symlink()
    assert transform.resolve() == FOLDERS / "impressions" / "transform.py"
    table, lake = (pipelines.load(FOLDERS / name) for name in ("impressions", "impressions_lake"))
    assert lake.source.model_dump() == table.source.model_dump()


def test_the_lake_has_the_rows_of_the_table_and_a_replay_changes_none(declared, monkeypatch):
    table, lake = declared
    sent = demo_impressions.produce(table.bootstrap, 3_000, seed=7)
    table.run()
    first, *_ = lake.run()
    expected = table.rows(f"SELECT {COLUMNS} FROM ads.impressions ORDER BY 1, 2")
    found = lake_query(lake, f"SELECT {COLUMNS} FROM lake ORDER BY 1, 2")
    assert len(found) == len(sent.written)
    assert [plain(row) for row in found] == [plain(row) for row in expected]
    monkeypatch.setenv("TIDELINE_PIPELINES", str(FOLDERS))
    assert demo_lake.differences(table.rows(OUTPUT)) == []
    assert demo_lake.differences(table.rows(OUTPUT)[1:]) == ["1 rows are not in ads.impressions, or twice"]
    lake.run(OneBatch(batch_id=first, replace=True), reason="again")
    assert lake_query(lake, f"SELECT {COLUMNS} FROM lake ORDER BY 1, 2") == found
    rejects = lake.rows(
        "SELECT count(*)::int FROM tideline.reject JOIN tideline.stream USING (stream_id) WHERE pipeline = 'impressions_lake'"
    )
    assert rejects == [(len(sent.rejected),)]


def plain(row: tuple[object, ...]) -> tuple[object, ...]:
    """Return the values as text where the two have types of their own: Postgres knows UUIDs, and a reader has a time zone."""
    return tuple(
        value.astimezone(UTC) if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value
        for value in row
    )
