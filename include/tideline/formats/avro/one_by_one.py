"""Decode one Avro record by itself, value after value: for records with long arrays, which would hold up all others.

What it returns and refuses is what `lockstep` does. A test compares the two.
"""

import struct
from collections.abc import Mapping
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any

import orjson
import pyarrow as pa

from tideline.domain.columns import WHOLE, ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.formats.arrow_types import arrow_type
from tideline.formats.avro.lockstep import NO_TIMESTAMP
from tideline.formats.avro.resolution import UNITS, least_bytes, misfit
from tideline.formats.avro.schema import Entries, EnumType, Fixed, Items, Node, Primitive, RecordType, Union
from tideline.formats.avro.single_record import FaultError, SingleRecord, json_text
from tideline.formats.json_validation import FITS
from tideline.formats.ranges import (
    FIRST_DAY,
    FIRST_US,
    INTEGERS,
    LAST_DAY,
    LAST_US,
    NO_SUCH_MOMENT,
    NOT_FINITE,
    NUL_IN_TEXT,
)
from tideline.formats.reader import REST

_ANY = SimpleType(WHOLE)


def row_of(data: bytes, schema: RecordType, kinds: Mapping[str, ColumnType], rest: str | None = None) -> dict[str, Any]:
    """Return the columns of a record, in values that Arrow takes for their types: timestamps in microseconds, dates in days.

    Args:
        data: The record.
        schema: That of its writer, in the names of the columns.
        kinds: The columns.
        rest: The column for the fields that no other takes; None without one.

    Raises:
        FaultError: The record cannot be decoded.
    """
    record = _Record(data)
    found = record.struct(schema, kinds if rest is None else {**kinds, REST: _ANY})
    if rest is not None:
        found[rest] = found.pop(REST)
    if left := len(data) - record.pos:
        raise FaultError(f"{left} bytes behind the end of the record")
    return found


class _Record(SingleRecord):
    """Reads the columns of one record."""

    def struct(self, record: RecordType, kinds: Mapping[str, ColumnType]) -> dict[str, Any]:
        """Read the fields of a record. If one of the columns is `REST`, it takes those that no other takes, as one JSON object."""
        found: dict[str, Any] = dict.fromkeys(kinds)
        others: list[str] = []
        for name, node in record.fields:
            if name in kinds:
                found[name] = self._value(node, kinds[name], name)
            elif REST not in kinds:
                self._value(node, None, name)
            elif (text := self._json_text(node, name)) is not None:
                others.append(f"{orjson.dumps(name).decode()}:{text}")
        if others:
            found[REST] = f"{{{','.join(others)}}}"
        return found

    def _value(self, node: Node, kind: ColumnType | None, name: str) -> Any:
        """Read a value as the declared type; over it if `kind` is None."""
        if kind == _ANY:
            return self._json_text(node, name)
        match node:
            case Union(branches=branches):
                return self._union(branches, kind, name)
            case Items(items=items):
                inner = kind.element if isinstance(kind, ArrayType) else None
                return [self._value(items, inner, f"{name}[]") for _ in self.each(least_bytes(items))]
            case Entries(values=values):
                for _ in self.each(1 + least_bytes(values)):
                    self.sized(self.length())
                    self._value(values, None, name)
                return None
            case RecordType():
                return self.struct(node, dict(kind.fields) if isinstance(kind, StructType) else {})
            case _:
                return self._plain(node, kind, name)

    def _json_text(self, node: Node, name: str) -> str | None:
        start = self.pos
        self._value(node, None, name)
        try:
            return json_text(self.data[start : self.pos], node)
        except FaultError as error:
            raise FaultError(f"{name}: {error}") from None

    def _plain(self, node: Primitive | Fixed | EnumType, kind: ColumnType | None, name: str) -> Any:
        match node:
            case EnumType(symbols=symbols):
                number = self.long()
                if kind is not None and not 0 <= number < len(symbols):
                    raise FaultError(f"{name}: an enum of {len(symbols)} symbols has no such number")
                return symbols[number] if kind is not None else None
            case Fixed(size=size):
                return self._bytes(self.sized(size), node, kind, name)
            case Primitive(kind="bytes" | "string"):
                return self._bytes(self.sized(self.length()), node, kind, name)
            case _:
                return self._primitive(node, kind, name)

    def _primitive(self, node: Primitive, kind: ColumnType | None, name: str) -> Any:
        match node.kind:
            case "null":
                return None
            case "boolean":
                byte = self.sized(1)[0]
                if kind is not None and byte > 1:
                    raise FaultError(f"{name}: a boolean is neither 0 nor 1")
                return byte == 1
            case "float" | "double":
                [number] = (
                    struct.unpack("<f", self.sized(4)) if node.kind == "float" else struct.unpack("<d", self.sized(8))
                )
                if kind is not None and not isfinite(number):
                    raise FaultError(f"{name}: {NOT_FINITE}")
                return number
            case _:
                whole = self.long()
                return None if kind is None else _whole(whole, node, kind, name)

    def _bytes(self, data: bytes, node: Primitive | Fixed, kind: ColumnType | None, name: str) -> Any:
        if kind is None:
            return None
        if isinstance(kind, DecimalType):
            value = int.from_bytes(data, "big", signed=True)
            if abs(value) >= 10**node.precision:
                raise FaultError(f"{name}: the decimal has more than the {node.precision} digits of its schema")
            return _decimal(value, node.scale, kind, name)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise FaultError(f"{name}: not valid UTF-8") from None
        if "\0" in text:
            raise FaultError(f"{name}: {NUL_IN_TEXT}")
        return _moment(text, name) if str(kind) == "timestamp" else text

    def _union(self, branches: tuple[Node, ...], kind: ColumnType | None, name: str) -> Any:
        chosen = self.long()
        if not 0 <= chosen < len(branches):
            raise FaultError(f"a union of {len(branches)} types has no such number")
        branch = branches[chosen]
        if branch == Primitive("null"):
            return None
        if kind is not None and misfit(branch, kind):
            raise FaultError(f"{name}: expected {kind}, found {branch}")
        return self._value(branch, kind, name)


def _moment(text: str, name: str) -> int:
    if not FITS["timestamp"](text):
        raise FaultError(f"{name}: {NO_TIMESTAMP}")
    moment: int = pa.scalar(text).cast(arrow_type(SimpleType("timestamp"))).value
    return moment


def _whole(number: int, node: Primitive, kind: ColumnType, name: str) -> Any:
    if node.kind == "int" and not -(2**31) <= number < 2**31:
        raise FaultError(f"{name}: an int has more than 32 bits")
    match kind:
        case DecimalType():
            return _decimal(number, 0, kind, name)
        case SimpleType(name="timestamp"):
            if not FIRST_US <= number * UNITS[node.logical] <= LAST_US:
                raise FaultError(f"{name}: {NO_SUCH_MOMENT}")
            return number * UNITS[node.logical]
        case SimpleType(name="date"):
            if not FIRST_DAY <= number <= LAST_DAY:
                raise FaultError(f"{name}: the date is outside of the years 1 to 9999")
            return number
        case SimpleType(name=declared) if declared in INTEGERS:
            most = 1 << (INTEGERS[declared] - 1)
            if not -most <= number < most:
                raise FaultError(f"{name}: the number is too large for {declared}")
            return number
        case _:
            return float(number)


def _decimal(value: int, scale: int, kind: DecimalType, name: str) -> Decimal:
    with localcontext(prec=100):
        exact = Decimal(value).scaleb(-scale)
        fitting = round(exact, kind.scale)
    if fitting != exact or abs(fitting) >= Decimal(10) ** (kind.precision - kind.scale):
        raise FaultError(f"{name}: the number does not fit {kind}")
    return fitting
