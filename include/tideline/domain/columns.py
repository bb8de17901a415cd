"""The column types that a pipeline declares, parsed from their Spark SQL names.

Standard library only. It defines the types; `tideline.formats` decodes their values.
"""

import re
from dataclasses import dataclass

SIMPLE = ("string", "boolean", "smallint", "int", "bigint", "float", "double", "timestamp", "date")
WHOLE = "json"
"""The type of a column that holds any JSON value whole, as text. No part of another type can have it."""
KNOWN = (*SIMPLE, WHOLE, "decimal(p,s)", "array<T>", "struct<name: T, ...>")
MAX_PRECISION = 38
_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|[<>(),:]|\S)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SimpleType:
    """A type without parameters, one of `SIMPLE` or `WHOLE`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class DecimalType:
    """Exact numbers of at most `precision` digits, `scale` of them after the point.

    Raises:
        ValueError: Not `1 <= precision <= 38`, or `scale` is above `precision`.
    """

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_PRECISION:
            raise ValueError(f"{self}: precision must be 1 to {MAX_PRECISION}")
        if not 0 <= self.scale <= self.precision:
            raise ValueError(f"{self}: scale must be 0 to the precision, {self.precision}")

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """Any number of values of one type, each possibly null."""

    element: "ColumnType"

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StructType:
    """Named fields in the declared order, each possibly null."""

    fields: tuple[tuple[str, "ColumnType"], ...]

    def __str__(self) -> str:
        return f"struct<{', '.join(f'{name}: {kind}' for name, kind in self.fields)}>"


ColumnType = SimpleType | DecimalType | ArrayType | StructType


def parse_type(text: str) -> ColumnType:
    """Return the column type that `text` names, such as `decimal(12,4)` or `array<struct<id: bigint>>`. Case does not matter.

    Raises:
        ValueError: `text` is not the name of a type. The message says which part is wrong.
    """
    tokens = _Tokens(text)
    if text.strip().lower() == WHOLE:
        return SimpleType(WHOLE)
    kind = _type(tokens)
    if rest := tokens.next():
        raise ValueError(f"{text!r}: expected nothing after {kind}, found {rest!r}")
    return kind


class _Tokens:
    """The tokens of one type name, read from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._left = _TOKEN.findall(text)[::-1]

    def next(self) -> str:
        return self._left.pop() if self._left else ""

    def take(self, *expected: str) -> str:
        found = self.next()
        if found not in expected:
            raise ValueError(
                f"{self.text!r}: expected {' or '.join(map(repr, expected))}, found {found or 'the end'!r}"
            )
        return found

    def number(self) -> int:
        found = self.next()
        if not found.isdigit():
            raise ValueError(f"{self.text!r}: expected a number, found {found or 'the end'!r}")
        return int(found)


def _type(tokens: _Tokens) -> ColumnType:
    token = tokens.next()
    match token.lower():
        case name if name in SIMPLE:
            return SimpleType(name)
        case "decimal":
            return _decimal(tokens)
        case "array":
            tokens.take("<")
            element = _type(tokens)
            tokens.take(">")
            return ArrayType(element=element)
        case "struct":
            return _struct(tokens)
        case name if name == WHOLE:
            raise ValueError(f"{tokens.text!r}: json is the type of a whole column, and of no part of another type")
        case _:
            raise ValueError(f"unknown type {token!r}; known: {', '.join(KNOWN)}")


def _decimal(tokens: _Tokens) -> DecimalType:
    # Spark reads a bare `decimal` as decimal(10,0) and would drop the digits after the point. So both numbers are required.
    tokens.take("(")
    precision = tokens.number()
    tokens.take(",")
    scale = tokens.number()
    tokens.take(")")
    return DecimalType(precision=precision, scale=scale)


def _struct(tokens: _Tokens) -> StructType:
    tokens.take("<")
    fields: dict[str, ColumnType] = {}
    sign = ","
    while sign == ",":
        name = tokens.next()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{tokens.text!r}: expected a field name, found {name or 'the end'!r}")
        if name in fields:
            raise ValueError(f"{tokens.text!r}: field {name!r} is declared twice")
        tokens.take(":")
        fields[name] = _type(tokens)
        sign = tokens.take(",", ">")
    return StructType(fields=tuple(fields.items()))
