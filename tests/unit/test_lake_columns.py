"""Which columns a Delta table can hold, which tables this sink does not write, and the statistics of its files."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.table import TableFeatures

from identities import batch
from tideline.declaration import pipelines
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.sinks.delta import delta_log, delta_table, preparing
from tideline.sinks.delta.column_types import converted, delta_type, misfit
from tideline.sinks.delta.delta_statistics import statistics
from tideline.sinks.delta.delta_table import COORDINATES, PLACEHOLDER, DeltaOutput

PRODUCED = pa.schema([("id", pa.int64()), ("name", pa.string()), ("kafka", pa.struct([]))])
COLUMNS = pa.unify_schemas([pa.schema([("id", pa.int64()), ("name", pa.string())]), COORDINATES])


@pytest.fixture
def pipeline(tmp_path) -> pipelines.Pipeline:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(
        json.dumps(
            {
                "description": "events",
                "source": {"bootstrap_servers": "localhost:9092", "topics": ["events"], "value": {"format": "text"}},
                "sink": {"kind": "delta", "path": str(tmp_path / "lake" / "deep" / "events")},
            }
        )
    )
    return pipelines.load(folder)


@pytest.fixture
def output(pipeline) -> DeltaOutput:
    return delta_table.sink(pipeline)


def test_the_table_is_made_of_the_transforms_columns_also_where_it_was_fenced_before(pipeline, output):
    output.fence(batch(7), 2)
    assert PLACEHOLDER in pa.schema(output.location.open().schema()).names
    for _ in range(2):
        columns = preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED)
        assert columns.names == ["id", "name"]
    table = output.location.open()
    assert pa.schema(table.schema()).names == [*columns.names, *COORDINATES.names]
    assert output.version(table, batch(7).identity) == 4, "the marker outlives the placeholder"


def made_by_hand(output: DeltaOutput, **properties: str) -> DeltaTable:
    return DeltaTable.create(output.location.uri, COLUMNS, configuration=properties, raise_if_key_not_exists=False)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (
            {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
            "column mapping",
        ),
        ({"delta.enableChangeDataFeed": "true"}, "a change data feed is not supported"),
        ({"delta.setTransactionRetentionDuration": "interval 1 days"}, "receipts of batches that expire"),
        ({"tideline.pipeline": "others"}, "it is the table of pipeline others"),
    ],
)
def test_tables_with_other_features_are_refused(pipeline, output, properties, expected):
    made_by_hand(output, **properties)
    with pytest.raises(FatalError, match=expected):
        preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED)


@pytest.mark.parametrize("feature", [TableFeatures.DeletionVectors, TableFeatures.RowTracking])
def test_features_that_rewrite_rows_in_place_are_refused(pipeline, output, feature):
    made_by_hand(output).alter.add_feature(feature, allow_protocol_versions_increase=True)
    with pytest.raises(FatalError, match=r"table feature \w+ is not supported"):
        preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED)


def test_a_check_constraint_is_refused(pipeline, output):
    made_by_hand(output).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(FatalError, match="CHECK constraint positive is not supported"):
        preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED)


def test_a_table_that_is_only_appended_to_refuses_replays(pipeline, output):
    made_by_hand(output, **{"delta.appendOnly": "true"})
    assert preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED).names == ["id", "name"]
    with pytest.raises(FatalError, match=r"delta\.appendOnly: a replay replaces rows"):
        preparing.prepare(output, pipeline, BatchKind.REPLAY, PRODUCED)


def test_each_column_that_does_not_fit_is_named(pipeline, output):
    columns = pa.schema([("id", pa.string()), pa.field("must", pa.int32(), nullable=False), *COORDINATES])
    DeltaTable.create(output.location.uri, columns)
    with pytest.raises(FatalError) as raised:
        preparing.prepare(output, pipeline, BatchKind.LIVE, PRODUCED)
    for expected in (
        "id string: cannot hold Arrow type int64",
        "name: missing in the table",
        "must: NOT NULL, but not produced",
    ):
        assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.timestamp("us"), "without a zone it is not a point in time"),
        (pa.uint64(), "Delta has no such type"),
        (pa.null(), "Delta has no such type"),
        (pa.decimal256(60, 2), "Delta has no such type"),
    ],
)
def test_types_that_delta_does_not_have_are_refused(kind, expected):
    with pytest.raises(ValueError, match=expected):
        delta_type(kind)
    assert misfit(kind, pa.field("a", pa.string())) is not None


def test_values_are_converted_without_loss_or_refused():
    def column(kind: pa.DataType, *, nullable: bool = True) -> pa.Field:
        return pa.field("a", kind, nullable=nullable)

    assert converted(pa.chunked_array([[1, None]]), column(pa.int32())).to_pylist() == [1, None]
    assert converted(pa.chunked_array([["a"]], pa.large_string()), column(pa.string())).type == pa.string()
    for values, field in [
        (pa.chunked_array([[2**40]]), column(pa.int32())),
        (pa.chunked_array([[1e300]]), column(pa.float32())),
        (pa.chunked_array([[Decimal("1.005")]]), column(pa.decimal128(10, 2))),
        (pa.chunked_array([[None]], pa.int32()), column(pa.int32(), nullable=False)),
    ]:
        with pytest.raises((pa.ArrowInvalid, ValueError)):
            converted(values, field)


def test_bounds_are_never_too_narrow(tmp_path):
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    rows = pa.table(
        {
            "n": pa.array([3, None, -1], pa.int32()),
            "text": pa.array(["b", "a", "x" * 100]),
            "short": pa.array(["b", None, "ä"]),
            "at": pa.array([moment] * 3, pa.timestamp("us", tz="UTC")),
            "far": pa.array([2**62] * 3, pa.timestamp("us", tz="UTC")),
            "day": pa.array([date(2026, 1, 2)] * 3),
            "real": pa.array([float("nan"), 1.0, 2.0]),
            "price": pa.array([Decimal("0.10")] * 3),
            "nothing": pa.array([None] * 3, pa.int64()),
            "flag": pa.array([True, False, None]),
        }
    )
    file = Path(tmp_path, "rows.parquet")
    pq.write_table(rows, file, row_group_size=2)
    found = statistics(pq.read_metadata(file))
    assert found["numRecords"] == 3
    assert found["minValues"] == {"n": -1, "short": "b", "at": "2026-01-02T03:04:05.678Z", "day": "2026-01-02"}
    assert found["maxValues"] == {"n": 3, "short": "ä", "at": "2026-01-02T03:04:05.679Z", "day": "2026-01-02"}
    assert {name: found["nullCount"][name] for name in ("n", "short", "nothing")} == {"n": 1, "short": 1, "nothing": 3}
    assert delta_log.plain_path("name=a%2520b/part.parquet") == "name=a%20b/part.parquet"


def test_a_file_that_could_not_be_removed_is_refused():
    with pytest.raises(FatalError, match="in a way in which it cannot be removed"):
        delta_log.plain_path("day%3D1/part.parquet")
