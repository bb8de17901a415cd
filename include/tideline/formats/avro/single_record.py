"""Read one Avro record, value after value: its numbers, its bytes, and values of any type as JSON.

A column of the type `json` holds a value of the schema whole, whatever type it has: a map, a union of several types, a record. Bytes are
Base64 in it, decimals have all their digits, and dates, times and timestamps are ISO 8601.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal, localcontext
from itertools import repeat
from math import isfinite
from typing import Any, TypeVar

import orjson

from tideline.formats.avro.resolution import least_bytes
from tideline.formats.avro.schema import DOCUMENT, Entries, EnumType, Fixed, Items, Node, Primitive, RecordType, Union
from tideline.formats.ranges import (
    FIRST_DAY,
    FIRST_US,
    LAST_DAY,
    LAST_US,
    NO_SUCH_MOMENT,
    NOT_FINITE,
    NUL_IN_TEXT,
    TOO_MANY,
)
from tideline.formats.whole_json import is_nul_escaped

_ENDS = "ends in the middle of a value"
_BILLION, _MILLION = 1_000_000_000, 1_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is said behind it


Chosen = TypeVar("Chosen")


class FaultError(ValueError):
    """The record cannot be decoded. The message says why."""


def json_text(data: bytes, node: Node) -> str | None:
    """Return a value of any type as JSON; None for null.

    Raises:
        FaultError: It has no form in JSON, or in `jsonb`.
    """
    value = SingleRecord(data).any_value(node)
    return None if value is None else orjson.dumps(value).decode()


class SingleRecord:
    """A position in the bytes of one record."""

    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def any_value(self, node: Node) -> Any:
        """Read a value of any type as JSON has it.

        Raises:
            FaultError: It ends too early, or has no form in JSON.
        """
        match node:
            case Union(branches=branches):
                return self.any_value(self._chosen(branches, "a union of {} types"))
            case Items(items=items):
                return [self.any_value(items) for _ in self.each(least_bytes(items))]
            case Entries(values=values):
                return {self._text(): self.any_value(values) for _ in self.each(1 + least_bytes(values))}
            case RecordType(fields=fields):
                return {name: self.any_value(inner) for name, inner in fields}
            case Primitive() | Fixed() | EnumType():
                return self._any_plain(node)

    def _any_plain(self, node: Primitive | Fixed | EnumType) -> Any:
        match node:
            case EnumType(symbols=symbols):
                return self._chosen(symbols, "an enum of {} symbols")
            case Fixed(size=size):
                return _of_bytes(self.sized(size), node)
            case Primitive(kind="bytes"):
                return _of_bytes(self.sized(self.length()), node)
            case Primitive(kind="string"):
                return _document(self._text()) if node.logical == DOCUMENT else self._text()
            case Primitive():
                return self._any_primitive(node)

    def _chosen(self, given: Sequence[Chosen], what: str) -> Chosen:
        number = self.long()
        if not 0 <= number < len(given):
            raise FaultError(f"{what.format(len(given))} has no such number")
        return given[number]

    def _any_primitive(self, node: Primitive) -> Any:
        match node.kind:
            case "null":
                return None
            case "boolean":
                byte = self.sized(1)[0]
                if byte > 1:
                    raise FaultError("a boolean is neither 0 nor 1")
                return byte == 1
            case "float" | "double":
                form = "<f" if node.kind == "float" else "<d"
                [number] = struct.unpack(form, self.sized(struct.calcsize(form)))
                if not isfinite(number):
                    raise FaultError(NOT_FINITE)
                return number
            case _:
                return _of_number(self.long(), node)

    def _text(self) -> str:
        try:
            text = self.sized(self.length()).decode()
        except UnicodeDecodeError:
            raise FaultError("not valid UTF-8") from None
        if "\0" in text:
            raise FaultError(NUL_IN_TEXT)
        return text

    def each(self, least: int) -> Iterator[None]:
        """Yield once for each item that follows, of at least so many bytes each."""
        while count := self.long():
            if count < 0:
                self.long()
                count = -count
            if count > (len(self.data) - self.pos) // least:
                raise FaultError(TOO_MANY)
            yield from repeat(None, count)

    def long(self) -> int:
        """Read a number of variable length."""
        value = shift = 0
        while True:
            byte = self.sized(1)[0]
            if shift == 63 and byte > 1:  # noqa: PLR2004 - the last bit of 64
                raise FaultError("a number has more than 64 bits")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the highest bit: more bytes follow
                return (value >> 1) ^ -(value & 1)
            shift += 7

    def length(self) -> int:
        """Read the length of something that follows."""
        length = self.long()
        if length < 0:
            raise FaultError(_ENDS)
        return length

    def sized(self, size: int) -> bytes:
        """Read so many bytes."""
        end = self.pos + size
        if end > len(self.data):
            raise FaultError(_ENDS)
        found, self.pos = self.data[self.pos : end], end
        return found


def _document(text: str) -> Any:
    """Say JSON that stands in a text: what it holds, as it is written."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FaultError(f"not valid JSON: {error}") from None
    if is_nul_escaped(text.encode()):
        raise FaultError(NUL_IN_TEXT)
    return orjson.Fragment(text)


def _of_bytes(data: bytes, node: Primitive | Fixed) -> Any:
    if node.logical != "decimal":
        return base64.b64encode(data).decode()
    value = int.from_bytes(data, "big", signed=True)
    if abs(value) >= 10**node.precision:
        raise FaultError(f"the decimal has more than the {node.precision} digits of its schema")
    with localcontext(prec=node.precision + 1):
        return orjson.Fragment(format(Decimal(value).scaleb(-node.scale), "f"))


def _of_number(number: int, node: Primitive) -> Any:
    if node.kind == "int" and not -(2**31) <= number < 2**31:
        raise FaultError("an int has more than 32 bits")
    said = _SAID.get(node.logical)
    return number if said is None else said(number)


def _day(number: int) -> str:
    if not FIRST_DAY <= number <= LAST_DAY:
        raise FaultError("the date is outside of the years 1 to 9999")
    return date.fromordinal(_EPOCH.toordinal() + number).isoformat()


def _time_of_day(per_second: int) -> Callable[[int], str]:
    def said(number: int) -> str:
        microseconds = number * (_MILLION // per_second)
        if not 0 <= microseconds < 24 * 3600 * _MILLION:
            raise FaultError("the time is no time of a day")
        return (_EPOCH + timedelta(microseconds=microseconds)).time().isoformat()

    return said


def _moment(per_second: int, zone: str) -> Callable[[int], str]:
    digits = len(str(per_second)) - 1

    def said(number: int) -> str:
        seconds, rest = divmod(number, per_second)
        if not FIRST_US <= seconds * _MILLION <= LAST_US:
            raise FaultError(NO_SUCH_MOMENT)
        return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}.{rest:0{digits}}{zone}"

    return said


_SAID: Mapping[str, Callable[[int], Any]] = {
    "date": _day,
    "time-millis": _time_of_day(1_000),
    "time-micros": _time_of_day(_MILLION),
    **{
        f"{local}timestamp-{unit}": _moment(per_second, "" if local else "Z")
        for local in ("", "local-")
        for unit, per_second in (("millis", 1_000), ("micros", _MILLION), ("nanos", _BILLION))
    },
}
"""How numbers with a logical type are said."""
