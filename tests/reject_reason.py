"""Decode records, and return the reason of a reject."""

from collections.abc import Sequence

import pyarrow as pa

from tideline.domain.columns import parse_type
from tideline.records.decoding import Decoded, decoder


def decode(records: Sequence[bytes | None], value_format: str = "json", **columns: str) -> Decoded:
    decode_values = decoder(value_format, {name: parse_type(kind) for name, kind in columns.items()})
    return decode_values(pa.array(records, pa.binary()))


def reason(record: bytes, **columns: str) -> str:
    decoded = decode([record], **columns)
    assert decoded.kept.to_pylist() == []
    return decoded.rejected[0]
