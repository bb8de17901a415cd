"""Decode Avro records field by field: each step reads one field of all records of a batch, in numpy and Arrow.

The schema is that of the writer; columns that are not declared are read over. A record with a fault keeps its place, with a
null or anything else as its value, until the batch is done: `Cursor` says which records have one.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.columns import ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.formats.arrow_types import arrow_type
from tideline.formats.avro.resolution import UNITS, WIDTHS, least_bytes, misfit
from tideline.formats.avro.schema import Entries, EnumType, Fixed, Items, Node, Primitive, RecordType, Union
from tideline.formats.avro.single_record import FaultError, json_text
from tideline.formats.cursor import Bytes, Cursor, Flags, Longs, Rows
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
    TOO_MANY,
)
from tideline.formats.reader import REST, Reader

MOST_ROUNDS = 64
"""Items of one array are read one after the other. A record with longer arrays is read by itself: see `one_by_one`."""
MOST_IN_ALL = 2_000
"""The same for all arrays of a batch together: in arrays of arrays the rounds multiply."""
LONG = "long"
"""The fault of such a record."""
NO_TIMESTAMP = "expected a timestamp with a zone, to the microsecond"
_DECIMAL = 16
"""The bytes of a decimal of 38 digits."""


Fields = Sequence[tuple[str, Node]]


class _Step(NamedTuple):
    """One field of some records, which is read next."""

    cursor: Cursor
    rows: Rows
    name: str
    """That of the field, for reasons."""

    def fail(self, wrong: Flags, reason: str) -> None:
        """Note a fault of those of the records that are wrong."""
        if wrong.any():
            self.cursor.fail(self.rows[wrong], f"{self.name}: {reason}")

    def of(self, places: Longs) -> "_Step":
        """Return the same step for some of its records only."""
        return self._replace(rows=self.rows[places])


class WriterGroup(NamedTuple):
    """Some records of a batch, and the schema with which they were written, in the names of the columns."""

    rows: Rows
    schema: RecordType


def columns_of(cursor: Cursor, groups: Sequence[WriterGroup], reader: Reader) -> tuple[Rows, list[pa.Array]]:
    """Read all records of the groups, which share none. Return their rows, ascending, and the columns in their order.

    A schema that grew has the fields of the one before it, and behind them others. So the fields with which all schemas begin are read
    of all records together: a step costs as much for ten records as for thousands.
    """
    rows = np.sort(np.concatenate([np.zeros(0, np.int64), *(group.rows for group in groups)]))
    kinds = reader.columns
    n_shared = _shared([group.schema.fields for group in groups])
    others = None if reader.rest is None else _Others()
    shared = _fields(cursor, rows, groups[0].schema.fields[:n_shared], kinds, others) if groups else {}
    rest = [_fields(cursor, group.rows, group.schema.fields[n_shared:], kinds, others) for group in groups]
    left = cursor.left(rows)
    behind = dict(zip(rows[left > 0].tolist(), left[left > 0].tolist(), strict=True))
    cursor.fail(rows[left > 0], lambda row: f"{behind[row]} bytes behind the end of the record")
    order = pa.array(np.argsort(np.concatenate([rows[:0], *(group.rows for group in groups)])))
    found = []
    for name, kind in kinds.items():
        parts = [one.get(name, reader.missing(name, len(group.rows))) for one, group in zip(rest, groups, strict=True)]
        if name in shared:
            found.append(shared[name])
        elif len(parts) == 1:
            found.append(parts[0])
        else:
            found.append(pa.concat_arrays([pa.array([], arrow_type(kind)), *parts]).take(order))
    return rows, found if others is None else [*found, others.column(rows)]


class _Others:
    """The fields of records that no column takes, as JSON. Those that are null are left out."""

    def __init__(self) -> None:
        self._members: dict[int, list[str]] = {}

    def add(self, rows: Rows, name: str, texts: pa.Array) -> None:
        label = orjson.dumps(name).decode()
        for row, text in zip(rows.tolist(), texts.to_pylist(), strict=True):
            if text is not None:
                self._members.setdefault(row, []).append(f"{label}:{text}")

    def column(self, rows: Rows) -> pa.Array:
        """Return an object for each record; null for one without such fields."""
        return pa.array(
            [f"{{{','.join(self._members[row])}}}" if row in self._members else None for row in rows.tolist()],
            pa.string(),
        )


def _shared(schemas: Sequence[Fields]) -> int:
    """Return with how many equal fields all schemas begin."""
    if not schemas:
        return 0
    alike = zip(*schemas, strict=False)
    return sum(1 for _ in takewhile(lambda fields: all(one == fields[0] for one in fields[1:]), alike))


def _fields(
    cursor: Cursor, rows: Rows, fields: Fields, kinds: Mapping[str, ColumnType], others: _Others | None = None
) -> dict[str, pa.Array]:
    """Read fields of records, one after the other. Return those that are declared, and add the others to `others`, if that is given."""
    found: dict[str, pa.Array] = {}
    for name, node in fields:
        if name in kinds:
            found[name] = _value(_Step(cursor, rows, name), node, kinds[name])
        elif others is not None:
            others.add(rows, name, _json_texts(_Step(cursor, rows, name), node))
        else:
            _skip(cursor, rows, node)
    return found


def _value(step: _Step, node: Node, kind: ColumnType) -> pa.Array:
    """Read one value of each record, as the declared type. The schema was compared with the columns before."""
    match node, kind:
        case _, SimpleType(name="json"):
            return _json_texts(step, node)
        case Union(), _:
            return _union(step, node, kind)
        case Items(items=items), ArrayType():
            return _items(step, items, kind)
        case RecordType(), StructType(fields=fields):
            others = _Others() if REST in dict(fields) else None
            found = _fields(step.cursor, step.rows, node.fields, dict(fields), others)
            if others is not None:
                found[REST] = others.column(step.rows)
            parts = [found.get(name, pa.nulls(len(step.rows), arrow_type(inner))) for name, inner in fields]
            return pa.StructArray.from_arrays(parts, fields=list(arrow_type(kind)))
        case EnumType() | Primitive() | Fixed(), _:
            return _plain(step, node, kind)
        case _:
            raise TypeError(f"{step.name}: {node} does not fill {kind}")


def _plain(step: _Step, node: EnumType | Primitive | Fixed, kind: ColumnType) -> pa.Array:
    match node, kind:
        case EnumType(symbols=symbols), _:
            return _symbol(step, symbols)
        case Primitive() | Fixed(), DecimalType() if node.logical == "decimal":
            return _decimals(step, _exact(step, node), kind)
        case Primitive(), _:
            return _primitive(step, node, kind)
        case _:
            raise TypeError(f"{step.name}: {node} does not fill {kind}")


def _json_texts(step: _Step, node: Node) -> pa.Array:
    """Read values of any type as JSON texts: where each of them ends, and then one after the other."""
    start = step.cursor.pos[step.rows]
    _skip(step.cursor, step.rows, node)
    ends = step.cursor.pos[step.rows]
    texts: list[str | None] = [None] * len(step.rows)
    faults: dict[int, str] = {}
    for place in np.flatnonzero(~step.cursor.failed[step.rows]).tolist():
        try:
            texts[place] = json_text(step.cursor.data[start[place] : ends[place]].tobytes(), node)
        except FaultError as error:
            faults[place] = str(error)
    for place, reason in faults.items():
        step.of(np.array([place])).fail(np.ones(1, np.bool_), reason)
    return pa.array(texts, pa.string())


def _symbol(step: _Step, symbols: tuple[str, ...]) -> pa.Array:
    number = step.cursor.longs(step.rows)
    wrong = (number < 0) | (number >= len(symbols))
    step.fail(wrong, f"an enum of {len(symbols)} symbols has no such number")
    number[wrong] = 0
    return pa.array(symbols, pa.string()).take(pa.array(number))


def _primitive(step: _Step, node: Primitive, kind: ColumnType) -> pa.Array:
    match node.kind:
        case "boolean":
            byte = step.cursor.sized(step.rows, 1)[:, 0]
            step.fail(byte > 1, "a boolean is neither 0 nor 1")
            return pa.array(byte == 1)
        case "int" | "long":
            return _whole(step, _number(step, node), node, kind)
        case "float" | "double":
            width = 4 if node.kind == "float" else 8
            given = step.cursor.sized(step.rows, width).view(f"<f{width}")[:, 0]
            step.fail(~np.isfinite(given), NOT_FINITE)
            return pa.array(given).cast(arrow_type(kind))
        case _:
            return _moments(step, _text(step)) if str(kind) == "timestamp" else _text(step)


def _moments(step: _Step, texts: pa.Array) -> pa.Array:
    """Return texts as timestamps."""
    wrong = np.array([not FITS["timestamp"](one) for one in texts.to_pylist()], np.bool_)
    step.fail(wrong, NO_TIMESTAMP)
    given = pc.if_else(pa.array(wrong), pa.scalar("1970-01-01T00:00:00Z"), texts)
    return given.cast(arrow_type(SimpleType("timestamp")))


def _number(step: _Step, node: Primitive) -> Longs:
    number = step.cursor.longs(step.rows)
    if node.kind == "int":
        number = _within(step, number, -(2**31), 2**31 - 1, "an int has more than 32 bits")
    return number


def _within(step: _Step, number: Longs, first: int, last: int, reason: str) -> Longs:
    """Note a fault of records whose number is not from `first` to `last`, and return 0 for them."""
    wrong = (number < first) | (number > last)
    step.fail(wrong, reason)
    return np.where(wrong, 0, number)


def _whole(step: _Step, number: Longs, node: Primitive, kind: ColumnType) -> pa.Array:
    """Return whole numbers as the declared type: a number, a decimal, a day or a moment."""
    match kind:
        case DecimalType():
            return _decimals(step, pa.array(number).cast(pa.decimal128(38, 0)), kind)
        case SimpleType(name="timestamp"):
            unit = UNITS[node.logical]
            fine = _within(step, number, -(-FIRST_US // unit), LAST_US // unit, NO_SUCH_MOMENT)
            return pa.array(fine * unit).cast(arrow_type(kind))
        case SimpleType(name="date"):
            fine = _within(step, number, FIRST_DAY, LAST_DAY, "the date is outside of the years 1 to 9999")
            return pa.array(fine.astype(np.int32)).cast(arrow_type(kind))
        case SimpleType(name=declared) if declared in INTEGERS:
            most = 1 << (INTEGERS[declared] - 1)
            fine = _within(step, number, -most, most - 1, f"the number is too large for {declared}")
            return pa.array(fine).cast(arrow_type(kind))
        case _:
            return pa.array(number.astype(np.float32 if str(kind) == "float" else np.float64))


def _text(step: _Step) -> pa.Array:
    found = step.cursor.blobs(step.rows)
    try:
        texts = found.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_text(one) for one in found.to_pylist()], np.bool_)
        step.fail(wrong, "not valid UTF-8")
        texts = pc.if_else(pa.array(wrong), pa.scalar(b"", pa.large_binary()), found).cast(pa.string())
    step.fail(np.asarray(pc.match_substring(texts, "\0")), NUL_IN_TEXT)
    return texts


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _exact(step: _Step, node: Primitive | Fixed) -> pa.Array:
    """Read decimals: numbers in two's complement, the highest byte first, of any length."""
    cursor, rows = step.cursor, step.rows
    length = np.full(len(rows), node.size) if isinstance(node, Fixed) else cursor.lengths(rows)
    start = cursor.pos[rows]
    cursor.skip(rows, length)
    length = np.where(cursor.failed[rows], 0, length)
    found = np.zeros((len(rows), _DECIMAL), np.uint8)
    first = np.flatnonzero(length > 0)
    is_negative = np.zeros(len(rows), np.bool_)
    is_negative[first] = cursor.data[start[first]] >= 0x80  # noqa: PLR2004 - the sign
    found[is_negative] = 0xFF
    for place in range(_DECIMAL):
        has = np.flatnonzero(length > place)
        if not len(has):
            break
        found[has, place] = cursor.data[start[has] + length[has] - 1 - place]
    wrong = _has_more_digits(found, node.precision)
    for row in np.flatnonzero(length > _DECIMAL):
        before = cursor.data[start[row] : start[row] + length[row] - _DECIMAL]
        wrong[row] |= bool((before != (0xFF if is_negative[row] else 0)).any())  # not all of them are the sign
        wrong[row] |= bool((found[row, -1] >= 0x80) != is_negative[row])  # noqa: PLR2004 - the sign
    step.fail(wrong, f"the decimal has more than the {node.precision} digits of its schema")
    found[wrong] = 0
    return pa.Array.from_buffers(pa.decimal128(38, node.scale), len(rows), [None, pa.py_buffer(found)])


def _has_more_digits(found: Bytes, precision: int) -> Flags:
    """Return which numbers of 16 bytes have more digits. Only those that are about as large are computed exactly."""
    high, low = found[:, 8:].copy().view("<i8")[:, 0], found[:, :8].copy().view("<u8")[:, 0]
    about = np.abs(high.astype(np.float64) * 2.0**64 + low.astype(np.float64))
    wrong = about >= 10.0**precision * (1 - 1e-9)
    for row in np.flatnonzero(wrong):
        wrong[row] = abs(int.from_bytes(found[row].tobytes(), "little", signed=True)) >= 10**precision
    return np.asarray(wrong)


def _decimals(step: _Step, exact: pa.Array, kind: DecimalType) -> pa.Array:
    """Return decimals with the declared digits. What does not fit without loss is a fault."""
    wanted = arrow_type(kind)
    try:
        return exact.cast(wanted)
    except pa.ArrowInvalid:
        wrong = np.array([not _fits(one, kind) for one in exact], np.bool_)
        step.fail(wrong, f"the number does not fit {kind}")
        return pc.if_else(pa.array(wrong), pa.scalar(0).cast(exact.type), exact).cast(wanted)


def _fits(value: pa.Scalar, kind: DecimalType) -> bool:
    try:
        value.cast(arrow_type(kind))
    except pa.ArrowInvalid:
        return False
    return True


def _union(step: _Step, node: Union, kind: ColumnType) -> pa.Array:
    """Read the branch of each record, and put the values of all branches back into the order of the records."""
    parts: list[pa.Array] = [pa.array([], arrow_type(kind))]
    index = np.zeros(len(step.rows), np.int64)
    has = np.zeros(len(step.rows), np.bool_)
    n_before = 0
    for branch, at in _by_branch(step.cursor, step.rows, node.branches):
        if branch == Primitive("null"):
            continue
        if misfit(branch, kind):
            step.of(at).fail(np.ones(len(at), np.bool_), f"expected {kind}, found {branch}")
            continue
        parts.append(_value(step.of(at), branch, kind))
        index[at], has[at] = n_before + np.arange(len(at)), True
        n_before += len(at)
    if n_before == len(step.rows) and len(parts) == 2:  # noqa: PLR2004 - all have the same branch
        return parts[1]
    return pa.concat_arrays(parts).take(pa.array(index, mask=~has))


def _by_branch(cursor: Cursor, rows: Rows, branches: Sequence[Node]) -> Iterator[tuple[Node, Longs]]:
    """Read which branch of a union each record holds. Yield the branches that are there, with the places in `rows` of their records."""
    chosen = cursor.longs(rows)
    wrong = (chosen < 0) | (chosen >= len(branches))
    cursor.fail(rows[wrong], f"a union of {len(branches)} types has no such number")
    for number, branch in enumerate(branches):
        at = np.flatnonzero((chosen == number) & ~cursor.failed[rows])
        if len(at):
            yield branch, at


def _items(step: _Step, items: Node, kind: ArrayType) -> pa.Array:
    counts = np.zeros(len(step.rows), np.int64)
    parts: list[pa.Array] = [pa.array([], arrow_type(kind.element))]
    owners: list[Longs] = [np.zeros(0, np.int64)]
    for live in _rounds(step.cursor, step.rows, least_bytes(items)):
        parts.append(_value(step.of(live)._replace(name=f"{step.name}[]"), items, kind.element))
        owners.append(live)
        counts[live] += 1
    values = pa.concat_arrays(parts)
    if len(owners) > 2:  # noqa: PLR2004 - after one round the items are in the order of their records
        values = values.take(pa.array(np.argsort(np.concatenate(owners), kind="stable")))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=arrow_type(kind))


def _rounds(cursor: Cursor, rows: Rows, least: int) -> Iterator[Longs]:
    """Yield which of these records have one more item of their array or map, until all have ended or are too long.

    Args:
        cursor: The cursor.
        rows: The records.
        least: How many bytes an item takes at least, which bounds their number.
    """
    left = np.zeros(len(rows), np.int64)
    done = cursor.failed[rows]
    for number in range(MOST_ROUNDS + 1):
        at = np.flatnonzero(~done & (left == 0))
        if len(at):
            left[at] = _block(cursor, rows[at], least)
            done[at] = (left[at] == 0) | cursor.failed[rows[at]]
        live = np.flatnonzero(~done)
        if not len(live):
            return
        cursor.n_rounds += 1
        if number == MOST_ROUNDS or cursor.n_rounds > MOST_IN_ALL:
            cursor.fail(rows[live], LONG)
            return
        yield live
        left[live] -= 1
        done |= cursor.failed[rows]


def _block(cursor: Cursor, rows: Rows, least: int) -> Longs:
    """Read how many items come next. None are the end."""
    count = cursor.longs(rows)
    sized = count < 0
    if sized.any():
        cursor.longs(rows[sized])  # the size of the block in bytes, for those who skip it
        count[sized] = -count[sized]
    wrong = (count < 0) | (count > cursor.left(rows) // least)
    cursor.fail(rows[wrong], TOO_MANY)
    return count


def _skip(cursor: Cursor, rows: Rows, node: Node) -> None:
    """Read over a value that no column takes."""
    match node:
        case RecordType(fields=fields):
            for _, inner in fields:
                _skip(cursor, rows, inner)
        case Union(branches=branches):
            for branch, at in _by_branch(cursor, rows, branches):
                _skip(cursor, rows[at], branch)
        case Items(items=inner):
            for live in _rounds(cursor, rows, least_bytes(inner)):
                _skip(cursor, rows[live], inner)
        case Entries(values=inner):
            for live in _rounds(cursor, rows, 1 + least_bytes(inner)):
                cursor.skip(rows[live], cursor.lengths(rows[live]))
                _skip(cursor, rows[live], inner)
        case Primitive() | Fixed() | EnumType():
            _skip_plain(cursor, rows, node)


def _skip_plain(cursor: Cursor, rows: Rows, node: Primitive | Fixed | EnumType) -> None:
    match node:
        case Primitive(kind="bytes" | "string"):
            cursor.skip(rows, cursor.lengths(rows))
        case Primitive(kind="int" | "long") | EnumType():
            cursor.longs(rows)
        case Primitive() | Fixed():
            cursor.skip(rows, WIDTHS[node.kind] if isinstance(node, Primitive) else node.size)
