"""Turn Arrow tables into records with keys, and rows into Arrow tables."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tideline.errors import FatalError
from tideline.formats.arrow_types import arrow_type
from tideline.records.kafka_metadata import stream_ids
from tideline.records.record_steps import Account
from tideline.state.folding import KeyedRecord
from tideline.state.key_state import Row
from tideline.state.keys import MAX_KEY_BYTES, key_text
from tideline.state.rules import Rules

KEY, STREAM = "tideline_key", "tideline_stream"
"""Columns that keyed tables have behind those of the records: the text of the key, and the stream of the record. They are found by their
places (`keys_of`, `streams_of`): a column of the records may have the same name."""
STEP = "transform"
"""The step under which a record that is not folded is a reject."""
_KAFKA = ("topic", "partition", "offset", "timestamp", "headers")
_MOMENT = pa.timestamp("us", tz="UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = pa.scalar(datetime.max.replace(tzinfo=UTC), _MOMENT)
"""Kafka allows later timestamps, and Python does not. A record with one has none here, as one with a timestamp before 1900."""


def keyed_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of keyed tables."""
    return rows.append(pa.field(KEY, pa.string())).append(pa.field(STREAM, pa.int64()))


def keys_of(table: pa.Table) -> pa.ChunkedArray:
    """Return the texts of the keys of a keyed table."""
    return table.column(table.num_columns - 2)


def streams_of(table: pa.Table) -> pa.ChunkedArray:
    """Return the streams of the records of a keyed table."""
    return table.column(table.num_columns - 1)


def keyed(
    tables: Iterable[pa.Table], rules: Rules, streams: Mapping[tuple[str, int], int], account: Account
) -> Iterator[pa.Table]:
    """Yield tables with the columns `KEY` and `STREAM`. Records without a key, or with one that is too long, are rejected.

    Raises:
        FatalError: `records` has made several rows of one record.
    """
    for table in tables:
        texts, reasons = _keys(table, rules)
        kafka = table.column("kafka").combine_chunks()
        if reasons:
            account.reject(STEP, kafka.take(pa.array(reasons, pa.int64())), reasons.values())
        found = table.append_column(KEY, texts).append_column(STREAM, stream_ids(kafka, streams))
        _check_distinct(kafka, streams_of(found))
        yield found.filter(keys_of(found).is_valid()) if reasons else found


def _check_distinct(kafka: pa.StructArray, of_stream: pa.ChunkedArray) -> None:
    """Refuse several rows of one record: if one of them were rejected, the others would be folded although their record is a reject."""
    places = pa.table({"stream": of_stream, "offset": kafka.field("offset")})
    counts = places.group_by(["stream", "offset"], use_threads=False).aggregate([([], "count_all")])
    if len(counts) < len(places):
        several = counts.filter(pc.greater(counts.column("count_all"), 1)).column("offset")[0]
        raise FatalError(
            f"`records` of transform.py has made several rows of the record at offset {several}, and the processor folds each record once",
            next_step="let the processor return the rows of a record, and `records` at most one; nothing was published",
            entry="state-cannot-be-folded",
        )


def _keys(table: pa.Table, rules: Rules) -> tuple[pa.Array, dict[int, str]]:
    """Return the text of each record's key, null where it is rejected, and the reasons by position."""
    names = list(rules.key)
    texts: list[str | None] = []
    reasons = {}
    for position, values in enumerate(zip(*(table.column(name).to_pylist() for name in names), strict=True)):
        text = None
        if None in values:
            reasons[position] = f"no key: {names[values.index(None)]} is null"
        elif len((text := key_text(values)).encode()) > MAX_KEY_BYTES:
            text = None
            reasons[position] = f"a key of more than {MAX_KEY_BYTES} bytes as JSON"
        texts.append(text)
    return pa.array(texts, pa.string()), reasons


def records(table: pa.Table) -> list[KeyedRecord]:
    """Return the records of a keyed table."""
    given = {name: table.column(at) for at, name in enumerate(table.column_names[:-2]) if name != "kafka"}
    names = [*given]
    columns = [_values(column) for column in given.values()]
    parts = [_values(_part(table.column("kafka"), name)) for name in _KAFKA]
    names.append("kafka")
    origins = [dict(zip(_KAFKA, of_one, strict=True)) for of_one in zip(*parts, strict=True)]
    values = [dict(zip(names, of_one, strict=True)) for of_one in zip(*columns, origins, strict=True)]
    offsets = parts[_KAFKA.index("offset")]
    keys, streams = (column.to_pylist() for column in (keys_of(table), streams_of(table)))
    return list(map(KeyedRecord, keys, streams, offsets, values))


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column. Timestamps are added up from the epoch, which is ten times as fast as Arrow's own way."""
    if column.type != _MOMENT:
        found: list[Any] = column.to_pylist()
        return found
    since_epoch = column.cast(pa.int64()).cast(pa.duration("us")).to_numpy().tolist()
    return [None if moment is None else _EPOCH + moment for moment in since_epoch]


def _part(kafka: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    part = pc.struct_field(kafka, name)
    return pc.if_else(pc.less_equal(part, _LATEST), part, None) if name == "timestamp" else part


def row_columns(rows: Iterable[Row], rules: Rules) -> dict[str, pa.Array]:
    """Return the columns of rows, which were checked when they were made."""
    given = [row.values for row in rows]
    return {name: pa.array([row[name] for row in given], arrow_type(kind)) for name, kind in rules.rows.items()}
