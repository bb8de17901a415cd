"""Pipelines whose output is a Delta table, for tests: declare them, and read the table with DuckDB."""

import json
from collections.abc import Mapping
from typing import Any

import duckdb

from lake_tables import Lake
from loading import Loading
from tideline.outside import delta_files, delta_table
from tideline.outside.delta_table import DeltaOutput


def into_lake(loading: Loading, lake: Lake, **sink: object) -> None:
    """Let the declared pipeline write to a table of a lake. `sink` holds more keys of the section."""
    declaration = json.loads((loading.folder / "pipeline.yaml").read_text())
    declaration["sink"] = {**lake.declared(), **sink}
    (loading.folder / "pipeline.yaml").write_text(json.dumps(declaration))
    (loading.folder / "target.sql").unlink(missing_ok=True)


def output(loading: Loading) -> DeltaOutput:
    """Return the table of the pipeline."""
    return delta_table.sink(loading.pipeline)


def lake_rows(loading: Loading) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Return the rows that DuckDB reads, by partition and offset; fail if a coordinate is there twice."""
    found = query(loading, "SELECT kafka_partition, kafka_offset, id, name, price FROM lake")
    rows = {(row[0], row[1]): row[2:] for row in found}
    assert len(rows) == len(found)
    return rows


def lake_owners(loading: Loading) -> Mapping[int, int]:
    """Return the batch that each row belongs to, by offset."""
    return dict(query(loading, "SELECT kafka_offset, tideline_batch FROM lake"))


def query(loading: Loading, sql: str) -> list[tuple[Any, ...]]:
    """Return what DuckDB answers; the table is called `lake`."""
    table = output(loading).location.open()
    assert table is not None
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("lake", table.to_pyarrow_dataset())
        return connection.execute(sql).fetchall()


def files(loading: Loading) -> set[str]:
    """Return the files of all attempts that are in the table's folder."""
    return {file.path for file in delta_files.staged(output(loading).location)}


def committed(loading: Loading) -> set[str]:
    """Return the files that the table consists of."""
    table = output(loading).location.open()
    assert table is not None
    return {*table.get_add_actions(flatten=True).column("path").to_pylist()}
