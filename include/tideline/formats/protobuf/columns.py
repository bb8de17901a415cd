"""Make declared columns of decoded fields. A value that does not fit without loss is a fault of its record."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import FieldDescriptor

from tideline.domain.columns import ArrayType, ColumnType, DecimalType, SimpleType, StructType
from tideline.formats.arrow_types import arrow_type
from tideline.formats.protobuf.decoding import column_name
from tideline.formats.protobuf.schema import KEY, MOMENT, Field, NarrowedMessage, Scalar
from tideline.formats.ranges import FIRST_US, INTEGERS, LAST_US, NO_SUCH_MOMENT, NOT_FINITE, NUL_IN_TEXT

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Values:
    """Where the values of an array are: in which records, and in which field."""

    records: Longs
    """The number of the record of each value."""
    field: str
    faults: dict[int, str]
    """The first fault of each record that has one."""

    def fail(self, wrong: Flags, reason: str) -> None:
        """Note a fault of the records of these values."""
        for record in self.records[wrong].tolist():
            self.faults.setdefault(record, f"{self.field}: {reason}")

    def below(self, field: str, places: Longs | None = None) -> "Values":
        """Return the values of a field in these, or in those at some places only."""
        return replace(
            self, field=f"{self.field}{field}", records=self.records if places is None else self.records[places]
        )


def columns_of(
    batch: pa.RecordBatch, message: NarrowedMessage, kinds: Mapping[str, ColumnType]
) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Return the columns of decoded records, and the fault of each record that has one, by its place."""
    faults: dict[int, str] = {}
    records = np.arange(batch.num_rows)
    found = {
        field.name: _column(
            batch.column(column_name(field.number)), field, kinds[field.name], Values(records, field.name, faults)
        )
        for field in message.fields
        if field.name
    }
    return found, faults


def _column(given: pa.Array, field: Field, kind: ColumnType, values: Values) -> pa.Array:
    if isinstance(kind, ArrayType) and field.is_repeated:
        return _list(given, field, kind, values)
    return _value(given, field.node, kind, values)


def _list(given: pa.Array, field: Field, kind: ArrayType, values: Values) -> pa.Array:
    # Maps have no kernel that flattens them, so both are taken apart by their offsets.
    offsets = np.asarray(given.offsets)
    owners = np.repeat(np.arange(len(given)), np.diff(offsets))
    items = given.values.slice(offsets[0], offsets[-1] - offsets[0])
    found = _value(items, field.node, kind.element, values.below("[]", owners))
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), found, type=arrow_type(kind))


def _value(given: pa.Array, node: Scalar | NarrowedMessage, kind: ColumnType, values: Values) -> pa.Array:
    if isinstance(node, Scalar):
        return _scalar(given, node, kind, values)
    # What stands in the fields of a message that is not there is no value, and must be no fault.
    present = np.flatnonzero(np.asarray(given.is_valid()))
    if len(present) < len(given):
        inner = _value(given.take(pa.array(present)), node, kind, values.below("", present))
        places = np.zeros(len(given), np.int64)
        places[present] = np.arange(len(present))
        return inner.take(pa.array(places, mask=np.asarray(given.is_null())))
    if isinstance(kind, StructType):
        return _struct(given, node, kind, values)
    if node.name == MOMENT:
        return _moment(given, values)
    [wrapped] = node.fields
    return _value(given.field(column_name(wrapped.number)), wrapped.node, kind, values)


def _struct(given: pa.Array, node: NarrowedMessage, kind: StructType, values: Values) -> pa.Array:
    by_name = {field.name: field for field in node.fields if field.name}
    parts = []
    for name, inner in kind.fields:
        if name not in by_name:
            parts.append(pa.nulls(len(given), arrow_type(inner)))
            continue
        field = by_name[name]
        at = column_name(field.number) if not node.is_entry else "key" if field.number == KEY else "value"
        parts.append(_column(given.field(at), field, inner, values.below(f".{name}")))
    if not parts:
        raise TypeError(f"{values.field}: {kind} has no fields")
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type(kind)))


def _moment(given: pa.Array, values: Values) -> pa.Array:
    seconds, nanos = (np.asarray(given.field(column_name(number))).astype(np.int64) for number in (1, 2))
    out = (seconds < FIRST_US // 10**6) | (seconds > LAST_US // 10**6) | (nanos < 0) | (nanos >= 10**9)
    values.fail(out, NO_SUCH_MOMENT)
    values.fail(
        ~out & (nanos % 10**3 > 0),
        "the timestamp is finer than microseconds; a struct<seconds: bigint, nanos: int> holds it",
    )
    return pa.array(np.where(out, 0, seconds) * 10**6 + nanos // 10**3).cast(pa.timestamp("us", tz="UTC"))


def _scalar(given: pa.Array, node: Scalar, kind: ColumnType, values: Values) -> pa.Array:
    match node.type:
        case FieldDescriptor.TYPE_BOOL:
            return given
        case FieldDescriptor.TYPE_STRING:
            return _decimals_of_text(given, kind, values) if isinstance(kind, DecimalType) else _text(given, values)
        case FieldDescriptor.TYPE_FLOAT | FieldDescriptor.TYPE_DOUBLE:
            values.fail(_flags(pc.invert(pc.is_finite(given))), NOT_FINITE)
            return given.cast(arrow_type(kind))
        case FieldDescriptor.TYPE_ENUM:
            return _symbols(given, node, values)
        case _:
            return _whole(given, kind, values)


def _flags(found: pa.Array) -> Flags:
    """Return which are true: nulls are not."""
    return np.asarray(pc.fill_null(found, False))


def _text(given: pa.Array, values: Values) -> pa.Array:
    values.fail(_flags(pc.match_substring(given, "\0")), NUL_IN_TEXT)
    return given


def _symbols(given: pa.Array, node: Scalar, values: Values) -> pa.Array:
    numbers = pa.array([number for number, _ in node.symbols], pa.int32())
    places = pc.index_in(given, numbers)
    unknown = _flags(pc.and_(places.is_null(), given.is_valid()))
    for number in np.unique(np.asarray(given.filter(pa.array(unknown)))).tolist():
        values.fail(unknown & _flags(pc.equal(given, number)), f"the enum of the schema has no number {number}")
    return pa.array([name for _, name in node.symbols], pa.string()).take(places)


def _whole(given: pa.Array, kind: ColumnType, values: Values) -> pa.Array:
    match kind:
        case DecimalType():
            return _decimals(given.cast(pa.decimal128(38, 0)), kind, values)
        case SimpleType(name=name) if name in INTEGERS:
            most = 1 << (INTEGERS[name] - 1)
            low, high = (
                pa.scalar(-most, pa.int64()),
                pa.scalar(most - 1, pa.int64() if given.type != pa.uint64() else pa.uint64()),
            )
            wrong = _flags(
                pc.greater(given, high)
                if given.type == pa.uint64()
                else pc.or_(pc.less(given, low), pc.greater(given, high))
            )
            values.fail(wrong, f"the number is too large for {name}")
            return _without(given, wrong).cast(arrow_type(kind))
        case _:
            return given.cast(arrow_type(kind), safe=False)


def _without(given: pa.Array, wrong: Flags) -> pa.Array:
    return pc.if_else(pa.array(wrong), pa.scalar(None, given.type), given) if wrong.any() else given


def _decimals_of_text(given: pa.Array, kind: DecimalType, values: Values) -> pa.Array:
    """Return the numbers in texts. An empty one is null, because a field that is not there is an empty one."""
    whole = kind.precision - kind.scale
    is_empty = _flags(pc.equal(given, ""))
    pattern = rf"^-?0*[0-9]{{0,{whole}}}(\.[0-9]{{0,{kind.scale}}}0*)?$"
    has_digit = pc.match_substring_regex(given, "[0-9]")
    wrong = _flags(pc.invert(pc.and_(pc.match_substring_regex(given, pattern), has_digit))) & ~is_empty
    values.fail(wrong, f"expected {kind}, found other text")
    return _without(given, wrong | is_empty).cast(arrow_type(kind))


def _decimals(exact: pa.Array, kind: DecimalType, values: Values) -> pa.Array:
    wanted = arrow_type(kind)
    try:
        return exact.cast(wanted)
    except pa.ArrowInvalid:
        most: Any = pa.scalar(10 ** (kind.precision - kind.scale), pa.decimal128(38, 0))
        wrong = _flags(pc.greater_equal(pc.abs(exact), most))
        values.fail(wrong, f"the number does not fit {kind}")
        return _without(exact, wrong).cast(wanted)
