"""Take apart what a connector of Debezium writes for one change: what happened, the row after it, and where in the database's log it stands.

With `schemas.enable` the converter writes `{"schema": ..., "payload": ...}`, and all records of a table have the same schema. It is read
once for all records that have its very bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tideline.domain.columns import ColumnType, SimpleType
from tideline.formats.debezium.connect_values import (
    ConnectValueError,
    Say,
    document,
    fields_of,
    may_hold_unavailable,
    saying_fields,
)
from tideline.formats.json_validation import object_in

_BEGIN, _MIDDLE = b'{"schema":', b',"payload":'
_MOST_SCHEMAS = 100
"""The most schemas that a task remembers. A producer may write another one into each record."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What one record holds, and how its values are said."""

    value: dict[str, Any]
    says: Mapping[str, Say]
    """By field of the row: what says its values. Empty where the record has no schema, so that they are JSON as they stand."""
    may_hold_unavailable: bool


class Payloads:
    """Reads the payloads of records.

    Args:
        columns: The columns of the row, which are named as its fields.
        within: The field of the payload that has the row; None if it is the row.
    """

    def __init__(self, columns: Mapping[str, ColumnType], within: str | None) -> None:
        self._columns = columns
        self._within = within
        self._known: dict[bytes, Mapping[str, Say]] = {}

    def read(self, raw: bytes | None) -> Payload | str:
        """Return the payload of a record, or the reason why it has none."""
        try:
            return self._with_known_schema(raw) or self._whole(raw)
        except ConnectValueError as error:
            return str(error)

    def _with_known_schema(self, raw: bytes | None) -> Payload | None:
        """Return the payload where the schema is written before it without a blank, as the converter does."""
        if raw is None or not raw.startswith(_BEGIN) or (middle := raw.find(_MIDDLE)) < 0 or not raw.endswith(b"}"):
            return None
        schema = raw[len(_BEGIN) : middle]
        says = self._known.get(schema)
        if says is None:
            try:
                says = self._says(orjson.loads(schema))
            except orjson.JSONDecodeError:  # the place was another one
                return None
            if len(self._known) < _MOST_SCHEMAS:
                self._known[schema] = says
        text = raw[middle + len(_MIDDLE) : -1]
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        return Payload(value, says, may_hold_unavailable(text)) if type(value) is dict else None

    def _whole(self, raw: bytes | None) -> Payload | str:
        found = object_in(raw)
        if raw is None or isinstance(found, str):
            return str(found)
        may_be = may_hold_unavailable(raw)
        if found.keys() != {"schema", "payload"}:
            return Payload(found, {}, may_be)
        value = found["payload"]
        if not isinstance(value, dict):
            return "expected an object in payload"
        return Payload(value, {} if found["schema"] is None else self._says(found["schema"]), may_be)

    def _says(self, schema: object) -> Mapping[str, Say]:
        if not isinstance(schema, dict):
            raise ConnectValueError("the schema is not one of Kafka Connect: expected an object")
        row = schema if self._within is None else fields_of(schema).get(self._within)
        says = {} if row is None else saying_fields(row, self._columns)
        # A column of text takes JSON as the text that it is.
        return {
            name: say
            for name, say in says.items()
            if say is not document or self._columns[name] != SimpleType("string")
        }
