"""Encode Arrow columns as Avro records: field k of all records at once.

Law: a value is written exactly or its record is refused. What cannot be known of a type before the read, such as a null where the
schema has none, a number of too many bits or a fraction of a millisecond, is seen here.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from tideline.domain.schemas import Schema
from tideline.formats.arrow_types import entries, is_bytes, is_text
from tideline.formats.avro.schema import (
    Entries,
    EnumType,
    Fixed,
    Items,
    Node,
    Primitive,
    RecordType,
    Union,
    parsed,
)
from tideline.formats.encoder import UnencodableError
from tideline.formats.varints import varints

_NULL = Primitive("null")
_END = b"\0"
"""What stands behind the last block of an array or a map."""
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_UNITS = {"millis": "ms", "micros": "us", "nanos": "ns"}
_MOST_DIGITS = 76
"""Those of Arrow's widest decimal."""
_FILLED_BY: Mapping[tuple[str, str], Sequence[Callable[[pa.DataType], bool]]] = {
    ("null", ""): [at.is_null],
    ("boolean", ""): [at.is_boolean],
    ("int", ""): [at.is_integer],
    ("int", "date"): [at.is_date],
    ("int", "time"): [at.is_time],
    ("long", ""): [at.is_integer],
    ("long", "time"): [at.is_time],
    ("long", "timestamp"): [lambda kind: at.is_timestamp(kind) and kind.tz is not None],
    ("long", "local"): [lambda kind: at.is_timestamp(kind) and kind.tz is None],
    ("float", ""): [at.is_float16, at.is_float32],
    ("double", ""): [at.is_floating],
    ("bytes", ""): [is_bytes],
    ("string", ""): [is_text],
    ("string", "uuid"): [is_text],
    ("string", "iso"): [is_text],
}
"""Which Arrow types fill a type, by its name and the first word of its logical type."""
_DEFAULTS: Mapping[str, type | tuple[type, ...]] = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "string": str,
}
"""What defaults of types are in JSON."""
_NUMBERS = {
    "boolean": pa.uint8(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
"""The Arrow types with as many bits as a type."""
_join = pc.binary_join_element_wise


@dataclass(frozen=True, slots=True)
class AvroRecords:
    """Writes records of one schema."""

    schema: RecordType
    head: bytes
    """What stands before each record."""

    @property
    def fields(self) -> Collection[str]:
        """See `Encoder.fields`."""
        return [name for name, _ in self.schema.fields]

    def problems(self, columns: Mapping[str, pa.DataType]) -> list[str]:
        """See `Encoder.problems`."""
        return [*_problems(self.schema, columns)]

    def encoded(self, columns: Mapping[str, pa.Array], length: int) -> pa.BinaryArray:
        """See `Encoder.encoded`."""
        return _record(self.schema, columns, length, self.head)


def encoder(schema: Schema, _message: str | None, head: bytes) -> AvroRecords:
    """See `tideline.formats.kinds.encoder`."""
    return AvroRecords(parsed(schema.text, [one.text for one in schema.references]), head)


def _problems(schema: RecordType, columns: Mapping[str, pa.DataType], path: str = "") -> Iterator[str]:
    fields = dict(schema.fields)
    for name in columns:
        if name not in fields:
            yield f"{path}{name}: the schema has no such field"
    for name, node in schema.fields:
        if name in columns:
            yield from _misfits(node, columns[name], f"{path}{name}")
        elif name not in schema.defaults:
            yield f"{path}{name}: missing, and the schema has no default for it"
        elif not _is_writable(node, schema.defaults[name]):
            yield f"{path}{name}: missing, and a default of {node} is not written"


def _misfits(node: Node, kind: pa.DataType, path: str) -> Iterator[str]:
    match node:
        case Union():
            others = [one for one in node.branches if one != _NULL]
            if len(others) > 1:
                yield f"{path}: the schema has {node}, and a column does not say which of them a value is"
            elif others and not (at.is_null(kind) and _NULL in node.branches):
                yield from _misfits(others[0], kind, path)
        case RecordType() if at.is_struct(kind):
            yield from _problems(node, {one.name: one.type for one in kind}, f"{path}.")
        case Items(items=items) if at.is_list(kind) or at.is_large_list(kind) or at.is_fixed_size_list(kind):
            yield from _misfits(items, kind.value_type, f"{path}[]")
        case Entries(values=values) if at.is_map(kind) and is_text(kind.key_type):
            yield from _misfits(values, kind.item_type, f"{path}{{}}")
        case Primitive() | Fixed() | EnumType() if _takes(node, kind):
            return
        case _:
            yield f"{path}: the schema has {node}, which Arrow type {kind} does not fill"


def _takes(node: Primitive | Fixed | EnumType, kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type may be values of a type without parts."""
    if isinstance(node, EnumType):
        return is_text(kind)
    if node.logical == "decimal":
        fits = isinstance(node, Primitive) or 10**node.precision <= 2 ** (8 * node.size - 1)
        return bool(fits and node.precision <= _MOST_DIGITS and at.is_decimal(kind))
    if isinstance(node, Fixed):
        return node.logical != "duration" and is_bytes(kind)
    return any(fills(kind) for fills in _FILLED_BY[node.kind, node.logical.partition("-")[0]])


def _is_writable(node: Node, default: Any) -> bool:
    """Return whether a field's default can be written: one without parts, and neither bytes nor of a logical type; or nothing."""
    if isinstance(node, Union):
        return any(_is_writable(one, default) for one in node.branches)
    if isinstance(node, Items | Entries):
        return default in ([], {})
    if isinstance(node, EnumType):
        return default in node.symbols
    if not isinstance(node, Primitive) or node.logical or node.kind not in _DEFAULTS:
        return False
    return isinstance(default, _DEFAULTS[node.kind]) and isinstance(default, bool) == (node.kind == "boolean")


def _record(schema: RecordType, columns: Mapping[str, pa.Array], length: int, head: bytes = b"") -> pa.BinaryArray:
    """Return records, of fields none of which is null but for unions with null."""
    parts: list[pa.Array] = [pa.repeat(pa.scalar(head, pa.binary()), length)]
    for name, node in schema.fields:
        try:
            if name in columns:
                parts.append(_encoded(node, columns[name]))
            else:
                [content] = _default(node, schema.defaults[name]).to_pylist()
                parts.append(pa.repeat(pa.scalar(content, pa.binary()), length))
        except (UnencodableError, pa.ArrowInvalid) as error:
            raise UnencodableError(f"column {name}: {error}") from error
    return _joined(parts)


def _default(node: Node, default: Any) -> pa.BinaryArray:
    if isinstance(node, Union):
        number = next(at for at, one in enumerate(node.branches) if _is_writable(one, default))
        return _joined([varints(np.array([number])), _default(node.branches[number], default)])
    if isinstance(node, Items | Entries):
        return pa.array([_END], pa.binary())
    return _encoded(node, pa.array([default]))


def _encoded(node: Node, values: pa.Array) -> pa.BinaryArray:
    if isinstance(node, Union):
        return _branches(node, values)
    if values.null_count and node != _NULL:
        raise UnencodableError("expected a value, which the schema requires, found null")
    match node:
        case RecordType():
            fields = {values.type.field(at).name: one for at, one in enumerate(values.flatten())}
            return _record(node, fields, len(values))
        case Items(items=items):
            values = values if at.is_list(values.type) else values.cast(pa.list_(values.type.value_type))
            return _blocks(values, _encoded(items, values.flatten()))
        case Entries(values=node_of_each):
            keys, items = entries(values)
            return _blocks(values, _joined([_sized(keys), _encoded(node_of_each, items)]))
        case EnumType(symbols=symbols):
            numbers = pc.index_in(values.cast(pa.string()), value_set=pa.array(symbols))
            if numbers.null_count:
                raise UnencodableError(f"expected a symbol of {node}, found another text")
            return varints(np.asarray(numbers))
        case Primitive() | Fixed():
            return _decimals(node, values) if node.logical == "decimal" else _simple(node, values)


def _branches(node: Union, values: pa.Array) -> pa.BinaryArray:
    """Return values of a union of null with one other type, or of one type alone."""
    numbers = {one == _NULL: number for number, one in enumerate(node.branches)}
    if values.null_count and True not in numbers:
        raise UnencodableError("expected a value, which the schema requires, found null")
    nulls = pa.repeat(pa.scalar(bytes([2 * numbers.get(True, 0)])), len(values))
    if values.null_count == len(values):
        return nulls
    number = numbers[False]
    there = values.drop_null()
    written = _joined([varints(np.full(len(there), number)), _encoded(node.branches[number], there)])
    return pc.replace_with_mask(nulls, values.is_valid(), written) if values.null_count else written


def _simple(node: Primitive | Fixed, values: pa.Array) -> pa.BinaryArray:
    """Return values without parts, none of them null where the type is not null."""
    if isinstance(node, Fixed):
        return _of_size(node, values.cast(pa.binary()))
    match node.kind:
        case "null":
            return pa.repeat(pa.scalar(b"", pa.binary()), len(values))
        case "int" | "long":
            return varints(np.asarray(_moments(node, values).cast(_NUMBERS[node.kind])))
        case "boolean" | "float" | "double":
            return _of_width(np.asarray(values.cast(_NUMBERS[node.kind])))
        case _:
            return _sized(_uuids(values) if node.logical == "uuid" else values)


def _of_size(node: Fixed, values: pa.BinaryArray) -> pa.BinaryArray:
    if pc.unique(pc.binary_length(values)).to_pylist() not in ([], [node.size]):
        raise UnencodableError(f"expected the {node.size} bytes of {node}, found another number of them")
    return values


def _uuids(values: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(values, _UUID), min_count=0).as_py():
        raise UnencodableError("expected a UUID, found another text")
    return values


def _moments(node: Primitive, values: pa.Array) -> pa.Array:
    """Return dates, times and timestamps in the unit of the schema, as numbers."""
    name, _, unit = node.logical.rpartition("-")
    if node.logical == "date":
        return values.cast(pa.date32()).cast(pa.int32())
    if name == "time":
        return values.cast(pa.time32("ms")).cast(pa.int32()) if unit == "millis" else values.cast(pa.time64("us"))
    return values.cast(pa.timestamp(_UNITS[unit], values.type.tz)) if name else values


def _decimals(node: Primitive | Fixed, values: pa.Array) -> pa.BinaryArray:
    """Return decimals as their digits without a point, the highest byte first."""
    exact = values.cast(pa.decimal256(node.precision, node.scale))
    width = exact.type.byte_width
    raw = exact.buffers()[1].slice(exact.offset * width, len(exact) * width).to_pybytes() if len(exact) else b""
    digits = [int.from_bytes(raw[start : start + width], "little", signed=True) for start in range(0, len(raw), width)]
    if isinstance(node, Fixed):
        return pa.array([one.to_bytes(node.size, "big", signed=True) for one in digits], pa.binary())
    written = [one.to_bytes(one.bit_length() // 8 + 1, "big", signed=True) for one in digits]
    return _sized(pa.array(written, pa.binary()))


def _blocks(lists: pa.Array, members: pa.BinaryArray) -> pa.BinaryArray:
    """Return the members of each list as one block behind their number, and an end. A list without any has no block."""
    offsets = np.asarray(lists.offsets)
    counts = np.diff(offsets)
    starts = pa.array(offsets - offsets[0], pa.int32())
    contents = pc.binary_join(pa.ListArray.from_arrays(starts, members), b"")
    blocks = _joined([varints(counts), contents, pa.repeat(pa.scalar(_END), len(lists))])
    return pc.if_else(pa.array(counts == 0), pa.scalar(_END), blocks)


def _sized(values: pa.Array) -> pa.BinaryArray:
    """Return texts and bytes behind their length."""
    contents = values.cast(pa.binary())
    return _joined([varints(np.asarray(pc.binary_length(contents))), contents])


def _of_width(numbers: npt.NDArray[Any]) -> pa.BinaryArray:
    """Return the bytes of numbers, the lowest first."""
    numbers = numbers.astype(numbers.dtype.newbyteorder("<"))
    width = numbers.dtype.itemsize
    ends = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(numbers), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(numbers.tobytes())]
    )


def _joined(parts: Sequence[pa.Array]) -> pa.BinaryArray:
    return _join(*parts, pa.scalar(b"", pa.binary()))
