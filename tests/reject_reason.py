"""Decode records, and return the reason of a reject."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tideline.declaration.source import Value
from tideline.domain.columns import ColumnType, parse_type
from tideline.domain.schemas import NoSchemas
from tideline.formats import kinds
from tideline.formats.format import Decoded, RawRecords

DecodeValues = Callable[[pa.Array | pa.ChunkedArray], Decoded]


def decoder(kind: str, columns: Mapping[str, ColumnType]) -> DecodeValues:
    """Return a function that decodes values by the format of that name."""
    section = Value.model_validate({"format": kind, "columns": {name: str(one) for name, one in columns.items()}})
    decode = kinds.declared(section, Path()).decoder(NoSchemas())
    return lambda values: decode(RawRecords(part="value", keys=values, values=values))


def decode(records: Sequence[bytes | None], value_format: str = "json", **columns: str) -> Decoded:
    decode_values = decoder(value_format, {name: parse_type(kind) for name, kind in columns.items()})
    return decode_values(pa.array(records, pa.binary()))


def reason(record: bytes, **columns: str) -> str:
    decoded = decode([record], **columns)
    assert decoded.kept.to_pylist() == []
    return decoded.rejected[0]
