"""The law of the one door: no commit goes behind a version of a Delta table with a feature that is not kept. With Spark's own Delta."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from identities import batch
from loads import lake_tables
from loads.lake_tables import Table, own
from tideline.errors import FatalError
from tideline.sinks.delta import delta_features, delta_files, delta_log, delta_upkeep
from tideline.sinks.delta.delta_log import RefusedTableError

RENAMES = (
    "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
    "RENAME COLUMN value TO content",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Table:
    """Return a table of two files with four rows each, which tests copy."""
    made = lake_tables.in_folder(tmp_path_factory.mktemp("made")).created()
    for number in range(2):
        made.commit(number, own(1), range(4 * number, 4 * number + 4))
    return made


@pytest.fixture
def table(made, tmp_path) -> Table:
    """Return a copy of the table of two files with four rows each."""
    return copied(made, tmp_path)


@pytest.fixture(scope="module")
def deletion(made, other_spark, tmp_path_factory) -> tuple[Table, Table]:
    """Return a copy with files of a dead attempt at batch 9, and another one after Spark has deleted a row by a deletion vector."""
    before = copied(made, tmp_path_factory.mktemp("before"))
    before.staged(9, 1, [7])
    before.output.fence(batch(9), 2)
    after = copied(before, tmp_path_factory.mktemp("after"))
    altered(other_spark, after, "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    other_spark.sql(f"DELETE FROM delta.`{after.output.location.uri}` WHERE kafka_offset = 1")
    return before, after


@pytest.fixture
def doomed(deletion, tmp_path) -> Table:
    """Return a copy that Spark has not changed yet."""
    return copied(deletion[0], tmp_path)


@pytest.fixture
def delete(deletion, tmp_path):
    """Return a function that gives it the commits of Spark."""
    return lambda: copied(deletion[1], tmp_path)


def copied(table: Table, folder: Path) -> Table:
    shutil.copytree(table.output.location.uri, folder / "events", dirs_exist_ok=True)
    return Table(lake_tables.DeltaOutput(location=lake_tables.in_folder(folder).location()))


def altered(spark, table: Table, *ends: str) -> None:
    for end in ends:
        spark.sql(f"ALTER TABLE delta.`{table.output.location.uri}` {end}")


def read(spark, table: Table, columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in spark.rows(table.output.location.uri, columns))


def test_rows_that_spark_has_deleted_stay_deleted_and_no_other_is_doubled(other_spark, doomed, delete):
    delete()
    staged = delta_files.staged(doomed.output.location)
    assert len(staged) == 3
    (line,) = delta_upkeep.of_table(doomed.output)
    assert "was left alone: " in line
    assert "deletion vectors is not supported" in line
    assert "docs/runbook.md#delta-table-is-left-alone" in line
    assert delta_files.staged(doomed.output.location) == staged
    assert read(other_spark, doomed, "kafka_offset") == [(offset,) for offset in range(8) if offset != 1]


def test_a_column_that_spark_has_renamed_keeps_its_values(other_spark, table):
    altered(other_spark, table, *RENAMES)
    (line,) = delta_upkeep.of_table(table.output)
    assert "column mapping is not supported" in line
    assert read(other_spark, table, "kafka_offset, content") == [(offset, "attempt 1") for offset in range(8)]


def test_a_merge_of_files_that_have_got_deletion_vectors_since_they_were_chosen_is_refused(other_spark, doomed, delete):
    (parts,) = delta_upkeep.small_files(doomed.output)
    delete()
    with pytest.raises(RefusedTableError, match="deletion vectors is not supported"):
        delta_upkeep.merge(doomed.output, parts)
    assert read(other_spark, doomed, "kafka_offset") == [(offset,) for offset in range(8) if offset != 1]


def test_a_commit_that_was_prepared_before_the_table_changed_is_refused(other_spark, doomed, delete):
    added = doomed.staged(7, 1, [8])

    def overtaken(found: DeltaTable) -> list[delta_log.Change]:
        if found.version() == 3:
            delete()
        return [added]

    with pytest.raises(FatalError, match=r"events batch 7: .* deletion vectors is not supported") as raised:
        doomed.output.commit(batch(7), own(1), overtaken, ranges="")
    assert raised.value.entry == "delta-table-is-left-alone"
    assert read(other_spark, doomed, "kafka_offset") == [(offset,) for offset in range(8) if offset != 1]
    assert doomed.output.look(batch(7)) is None


def test_a_fence_in_a_table_with_in_commit_timestamps_says_what_takes_them_away_and_works_after_that(
    other_spark, table
):
    altered(other_spark, table, "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    with pytest.raises(FatalError, match="in-commit timestamps is not supported") as raised:
        table.output.fence(batch(7), 2)
    drop = f"ALTER TABLE delta.`{table.output.location.uri}` DROP FEATURE inCommitTimestamp"
    assert drop in raised.value.next_step
    other_spark.sql(drop)
    assert table.output.fence(batch(7), 2) is None
    assert table.commit(7, attempt := own(2), [8]) == attempt


def test_a_refusal_of_the_library_is_told_from_a_lost_race(other_spark, table, monkeypatch):
    altered(other_spark, table, "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    monkeypatch.setattr(delta_features, "unkept", lambda *_, **__: [])  # a feature that the list does not know yet
    with pytest.raises(FatalError, match=r"Unsupported table features required: \[InCommitTimestamp\]"):
        table.output.fence(batch(7), 2)


@pytest.mark.parametrize(
    ("columns", "properties", "expected"),
    [
        ("a BIGINT", "'delta.enableRowTracking' = 'true'", "row tracking"),
        ("a BIGINT", "'delta.enableTypeWidening' = 'true'", "delta.enableTypeWidening"),
        ("a BIGINT", "'delta.checkpointPolicy' = 'v2'", "table feature v2Checkpoint"),
        ("a BIGINT", "'delta.enableChangeDataFeed' = 'true'", "a change data feed"),
        ("a BIGINT", "'delta.feature.allowColumnDefaults' = 'supported'", "table feature allowColumnDefaults"),
        ("a BIGINT GENERATED ALWAYS AS IDENTITY", "", "a: an identity column"),
        ("a BIGINT, b STRUCT<c: BIGINT>, d BIGINT GENERATED ALWAYS AS (b.c + 1)", "", "d: a generated column"),
        ("a VARIANT", "", "table feature variantType"),
        ("a VARCHAR(10)", "", "a: CHAR or VARCHAR, a limited length"),
        ("a BIGINT, b ARRAY<STRUCT<c: STRING>>", "'delta.columnMapping.mode' = 'name'", "b.c: column mapping"),
    ],
)
def test_each_feature_that_spark_can_give_a_table_is_refused(other_spark, tmp_path, columns, properties, expected):
    lake = lake_tables.in_folder(tmp_path)
    uri = lake.location().uri
    having = f"TBLPROPERTIES ({properties})" if properties else ""
    other_spark.sql(f"CREATE TABLE delta.`{uri}` ({columns}) USING delta {having}")
    output = lake_tables.DeltaOutput(location=lake.location())
    with pytest.raises(FatalError) as raised:
        output.fence(batch(7), 2)
    assert f"{expected} is not supported" in raised.value.problem
    found = lake.location().open()
    assert found is not None
    assert found.version() == 0


def test_clustered_and_checked_tables_are_refused(other_spark, table, tmp_path):
    altered(other_spark, table, "ADD CONSTRAINT positive CHECK (kafka_offset >= 0)")
    with pytest.raises(FatalError, match="CHECK constraint positive is not supported") as raised:
        table.output.fence(batch(7), 2)
    assert "DROP CONSTRAINT `positive`" in raised.value.next_step
    uri = tmp_path / "clustered"
    other_spark.sql(f"CREATE TABLE delta.`{uri}` (a BIGINT) USING delta CLUSTER BY (a)")
    with pytest.raises(RefusedTableError, match="table feature clustering is not supported"):
        delta_log.commit(DeltaTable(uri), [], transaction=("doctor", 1), metadata={})


def test_rows_can_be_added_to_an_append_only_table_and_none_removed(table):
    table.reopened().alter.set_table_properties({"delta.appendOnly": "true"})
    table.commit(7, own(1), [8])
    rows = table.rows()
    assert delta_upkeep.of_table(table.output) == [f"{table.output.location.uri}: 3 small files merged into 1"]
    found = table.reopened()
    (path,) = found.get_add_actions(flatten=True).column("path").to_pylist()
    gone = delta_log.RemoveAction(path, True, 1, 1, {})
    with pytest.raises(RefusedTableError, match=r"delta\.appendOnly: a replay replaces rows"):
        delta_log.commit(found, [gone], transaction=None, metadata={})
    assert table.rows() == rows
