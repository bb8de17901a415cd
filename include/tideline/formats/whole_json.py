"""Take the values of fields out of JSON objects as they are written: for columns that hold any value whole, and for fields that no column takes.

Nothing is parsed, so every digit, every field and every duplicate key is there for every reader of the column. What `jsonb` makes of
it is up to Postgres.
"""

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence

import orjson
import pyarrow as pa

from tideline.domain.columns import WHOLE, ColumnType, SimpleType
from tideline.domain.reject_reasons import one_line
from tideline.formats.arrow_types import arrow_type
from tideline.formats.ranges import NUL_IN_TEXT
from tideline.formats.undeclared import cleaned

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PART = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_PLAIN = re.compile(rb"[^ \t\r\n,}\]]+")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def is_nul_escaped(value: bytes) -> bool:
    """Return whether JSON has U+0000 in a text, which `jsonb` cannot hold."""
    return b"\\u0000" in value and _NUL.search(value) is not None


Taken = list[str | None] | str
"""The value of each field, None for one that is null or not there; or the reason why the record cannot be kept."""


class WholeValues:
    """The columns of a declaration that hold their values whole, beside those that have a type.

    Args:
        columns: The declared columns.
        rest: The column for the fields that are in none of them; None without one.
    """

    def __init__(self, columns: Mapping[str, ColumnType], rest: str | None = None) -> None:
        whole = [name for name, kind in columns.items() if kind == SimpleType(WHOLE)]
        self._names = whole if rest is None else [*whole, rest]
        self._take = taker(whole, beside=None if rest is None else columns.keys())
        self._has_rest_only = rest is not None and not whole
        self.others = {name: kind for name, kind in columns.items() if name not in whole}
        of_rest = [] if rest is None else [(rest, pa.string())]
        self.schema = pa.schema([*((name, arrow_type(kind)) for name, kind in columns.items()), *of_rest])
        """All columns, in the declared order."""

    def taken(
        self, raws: Sequence[bytes], rejected: dict[int, str], with_rest: Container[int]
    ) -> dict[int, list[str | None]]:
        """Return the values of each record by its position; nothing if there is no such column. Add records without them to `rejected`.

        Args:
            raws: The records.
            rejected: Those that are rejected already.
            with_rest: The positions of records that have a field which is in no declared column.
        """
        found: dict[int, list[str | None]] = {}
        for position, raw in enumerate(raws if self._names else ()):
            if position in rejected:
                continue
            if self._has_rest_only and position not in with_rest:
                found[position] = [None]
            else:
                values = self._take(raw)
                if isinstance(values, str):
                    rejected[position] = one_line(values)
                else:
                    found[position] = values
        return found

    def beside(self, typed: pa.Table, taken: Sequence[Sequence[str | None]]) -> pa.Table:
        """Return a table of the other columns with those of the same records that hold their values whole."""
        whole = {
            name: pa.array(texts, pa.string())
            for name, texts in zip(self._names, zip(*taken, strict=True), strict=True)
        }
        columns = dict(zip(typed.column_names, typed.columns, strict=True)) | whole
        return pa.table({name: columns[name] for name in self.schema.names}, schema=self.schema)


def taker(names: Sequence[str], *, beside: Collection[str] | None = None) -> Callable[[bytes], Taken]:
    """Return a function that takes these fields out of a record, which must be a valid JSON object.

    Args:
        names: The fields.
        beside: Without it, other fields are read over. With it, the last value is an object of those that are not in it, and are not null;
            None if there are none.
    """
    places = {name: place for place, name in enumerate(names)}

    def take(raw: bytes) -> Taken:
        found: list[str | None] = [None] * len(places)
        seen, others = set(), []
        at = _SPACE.match(raw, raw.index(b"{") + 1).end()  # type: ignore[union-attr]  # it matches nothing as well
        while raw[at : at + 1] == b'"':
            end = _end(raw, at)
            label = raw[at:end]
            name = orjson.loads(label)
            at = _after_space(raw, _after_space(raw, end) + 1)
            end = _end(raw, at)
            if (place := places.get(name)) is not None:
                if name in seen:
                    return f"{name}: is there twice"
                seen.add(name)
                value = raw[at:end]
                if is_nul_escaped(value):
                    return f"{name}: {NUL_IN_TEXT}"
                found[place] = None if value == b"null" else value.decode()
            elif beside is not None and name not in beside and (value := raw[at:end]) != b"null":
                member = label + b":" + value
                if is_nul_escaped(member):
                    return f"{cleaned(name)}: {NUL_IN_TEXT}"
                others.append(member)
            at = _after_space(raw, end)
            at = _after_space(raw, at + 1) if raw[at : at + 1] == b"," else at
        if beside is not None:
            found.append((b"{" + b",".join(others) + b"}").decode() if others else None)
        return found

    return take


def _after_space(raw: bytes, at: int) -> int:
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]  # it matches nothing as well


def _end(raw: bytes, at: int) -> int:
    """Return where the value ends that begins at a place. Knows no recursion: a value may have as many levels as the syntax check allows."""
    match raw[at : at + 1]:
        case b'"':
            return _TEXT.match(raw, at).end()  # type: ignore[union-attr]  # the syntax was checked
        case b"{" | b"[":
            depth = 0
            for part in _PART.finditer(raw, at):
                sign = part[0]
                depth += (sign in {b"{", b"["}) - (sign in {b"}", b"]"})
                if depth == 0:
                    return part.end()
            raise AssertionError("the syntax was checked")
        case _:
            return _PLAIN.match(raw, at).end()  # type: ignore[union-attr]  # the syntax was checked
