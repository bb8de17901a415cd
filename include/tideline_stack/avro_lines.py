"""Write lines of JSON as Avro records in the frame of a schema registry. For trials."""

from collections.abc import Sequence

import pyarrow as pa

from tideline import environment
from tideline.authoring.registered_values import avro_fields
from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import NoSchemas, Schema
from tideline.errors import FatalError
from tideline.formats import kinds
from tideline.formats.confluent_frame import framed
from tideline.formats.encoder import UnencodableError
from tideline.formats.format import Decoded, RawRecords
from tideline.formats.json_format import JsonFormat
from tideline.registry.client import RegistryClient

_SECONDS = 30
_NEXT_STEP = "correct the line, or the schema; nothing was sent"


def encoded(topic: str, schema_text: str, lines: Sequence[bytes]) -> list[bytes]:
    """Register a schema as the newest of the topic's values, and return each line as a record of it.

    Raises:
        FatalError: A line does not fit the schema, or the registry refuses it.
        RetryableError: The registry does not answer.
    """
    schema = Schema(kind="AVRO", text=schema_text)
    rows = _decoded(schema, lines).table.combine_chunks()
    url = environment.required("TIDELINE_REGISTRY", "the address of the schema registry")
    access = RegistryAccess(pipeline=topic, name="stack", urls=(url,), timeout_seconds=_SECONDS)
    with RegistryClient(access) as client:
        schema_id = client.register(f"{topic}-value", schema)
    writer = kinds.encoder("avro", schema, None, framed(schema_id))
    columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
    try:
        if problems := writer.problems({name: column.type for name, column in columns.items()}):
            raise FatalError("; ".join(problems), next_step=_NEXT_STEP)
        return [*writer.encoded(columns, len(lines)).to_pylist()]
    except (UnencodableError, pa.ArrowInvalid) as error:
        raise FatalError(str(error), next_step=_NEXT_STEP) from error


def _decoded(schema: Schema, lines: Sequence[bytes]) -> Decoded:
    fields, doubts = avro_fields(0, schema)
    if doubts:
        raise FatalError(f"{doubts[0].subject}: {doubts[0].seen}", next_step=_NEXT_STEP)
    given = pa.array(lines, pa.binary())
    raw = RawRecords(part="value", keys=given, values=given)
    found = JsonFormat({field.name: field.kind for field in fields}).decoder(NoSchemas())(raw)
    for position, reason in found.rejected.items():
        raise FatalError(f"line {position + 1}: {reason}", next_step=_NEXT_STEP)
    if found.undeclared:
        raise FatalError(f"the schema has no field {', '.join(found.undeclared)}", next_step=_NEXT_STEP)
    return found
