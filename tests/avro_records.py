"""Records in Avro, written by another encoder than the product's, and the frame of a schema registry."""

from io import BytesIO
from typing import Any

import fastavro


def written(schema: Any, row: Any) -> bytes:
    """Return a record as it is written with a schema."""
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def framed(schema_id: int, body: bytes) -> bytes:
    """Return a record behind the id of its schema."""
    return b"\0" + schema_id.to_bytes(4, "big") + body
