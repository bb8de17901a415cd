"""The format `json`: strictly, a value fits its declaration or is rejected with a reason."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from tideline.declaration.source import Key, Value
from tideline.domain.columns import ColumnType
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schemas
from tideline.formats.arrow_types import arrow_type, wire_type
from tideline.formats.confluent_frame import RegisteredSchemas, of_batch
from tideline.formats.format import Decode, Decoded, RawRecords, columns_of
from tideline.formats.json_prefilter import suspect_fault
from tideline.formats.json_validation import may_hold_far_digits, object_in, type_fault
from tideline.formats.ranges import NUL_IN_TEXT
from tideline.formats.undeclared import ObjectFields, refusal
from tideline.formats.whole_json import WholeValues

BLOCK_BYTES = 32 << 20  # Arrow addresses the text of one column in one block with 31 bits
NARROW = 512  # records; a call into Arrow costs as much as 150 of them, so record by record is 80 times slower


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """One JSON object per value, decoded to the declared columns.

    A field that is missing is null, one that is not declared is read over and counted, or a reject. No value is coerced: a string is not a number, a
    fraction is not an integer, and a value that overflows is rejected. A declared key that occurs twice is rejected, and so
    is U+0000 in a column of text. A decimal may be a number or a string that holds one. A date is a string `2026-01-31`.
    A timestamp is an ISO 8601 string *with* a zone (`Z`, `+02:00`) and no finer than microseconds. Without a zone it does
    not identify a point in time, so it is rejected. A column of the type `json` holds any value as it is written, with all
    its digits and fields; null is null.
    """

    columns: Mapping[str, ColumnType]
    refuses_undeclared: bool = False
    """Whether a record with a field that is not declared is a reject."""
    rest: str | None = None
    """The column that holds what is in no other; None without one."""

    def decoder(self, _schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        return _JsonDecoder(self)


@dataclass(frozen=True, slots=True)
class RegisteredJsonFormat:
    """JSON objects in the frame of a schema registry. Its schemas must be there; the declared columns say what a record must hold."""

    inner: JsonFormat

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        decode_bodies = self.inner.decoder(schemas)
        registered = RegisteredSchemas(schemas, "JSON", lambda _: True)

        def decode(raw: RawRecords) -> Decoded:
            records, groups = registered.groups(raw)
            rows = np.sort(np.concatenate([np.zeros(0, np.int64), *(rows for rows, _ in groups)]))
            bodies = records.bodies.take(pa.array(rows))
            found = decode_bodies(RawRecords(part="value", keys=bodies, values=bodies))
            return of_batch(records.positions[rows], found, records.rejected)

        return decode


def declared(section: Value | Key, _folder: Path) -> JsonFormat | RegisteredJsonFormat:
    """Return the format of a section with columns."""
    found = JsonFormat(columns_of(section), section.unknown == "reject", section.rest)
    return found if section.frame == "none" else RegisteredJsonFormat(found)


class _JsonDecoder:
    """Parses records joined by newlines: all of them in one call if none is bad.

    A bad record cannot affect the rows of its neighbours, because a strict parser checks each record before they are
    joined: it is exactly one JSON object. Arrow's parser accepts the same grammar (and a little more). So it reaches
    the end of each object where the record ends, and makes one row of each. It is not safe to join first and look for
    errors afterwards. Three broken records can combine into three valid rows. They can even forge record numbers, if
    each record is wrapped with its number to prove the order.
    """

    def __init__(self, declared: JsonFormat) -> None:
        self._fields = ObjectFields(declared.columns)
        self._refuses_undeclared = declared.refuses_undeclared
        self._whole = WholeValues(declared.columns, declared.rest)
        columns = self._whole.others
        self._schema = pa.schema([(name, arrow_type(kind)) for name, kind in columns.items()])
        wire = pa.schema([(name, wire_type(kind)) for name, kind in columns.items()])
        self._options = pj.ParseOptions(
            explicit_schema=wire, unexpected_field_behavior="ignore", newlines_in_values=True
        )
        self._type_fault = type_fault(columns)
        self._suspect_fault = suspect_fault(columns)
        self._is_wary = False
        """Whether the previous records had faults that the prefilter finds. Then it is faster to run it before Arrow than after Arrow has failed."""
        self._sure_fault = type_fault(
            columns, unsure="its numbers are too small, or it is nested too deep, to be judged"
        )
        self._holds_decimals = any("decimal" in str(kind) for kind in columns.values())

    def __call__(self, raw: RawRecords) -> Decoded:
        raws = raw.own.to_pylist()
        rejected, with_rest = self._first_faults(raws)
        self._is_wary = self._is_wary and bool(rejected)
        taken = self._whole.taken(raws, rejected, with_rest)
        kept: list[int] = []
        tables = [self._whole.schema.empty_table()]
        for block in _blocks(raws, rejected):
            for positions, table in self._tables(raws, self._without_far_digits(raws, block, rejected), rejected):
                kept += positions
                tables.append(self._whole.beside(table, [taken[at] for at in positions]) if taken else table)
        in_order = dict(sorted(rejected.items()))
        return Decoded(
            table=pa.concat_tables(tables),
            kept=pa.array(kept, pa.int64()),
            rejected=in_order,
            undeclared=self._fields.counted(),
        )

    def _first_faults(self, raws: Sequence[bytes | None]) -> tuple[dict[int, str], set[int]]:
        """Return the reasons of records that are no objects, or have a fault, if there were some lately; and which have undeclared fields."""
        rejected: dict[int, str] = {}
        with_others: set[int] = set()
        suspect = self._suspect_fault if self._is_wary else None
        shape_of, has_structs = self._fields.shape, self._fields.has_structs
        before: tuple[str, ...] = ()
        seen = shape_of(before, 0)
        for position, raw in enumerate(raws):
            found = object_in(raw)
            if raw is None or isinstance(found, str):
                rejected[position] = one_line(str(found))
                continue
            reason = suspect(raw, found) if suspect else None
            keys = tuple(found)
            if keys != before:  # most records have the keys of the one before them
                before, seen = keys, shape_of(keys, position)
            seen.n_records += 1
            if seen.has_others:
                with_others.add(position)
            if has_structs:
                self._fields.look_into(found, position)
            if reason is None and self._refuses_undeclared:
                reason = refusal(self._fields.of(found))
            if reason:
                rejected[position] = one_line(reason)
        return rejected, with_others

    def _without_far_digits(
        self, raws: Sequence[bytes], block: Sequence[int], rejected: dict[int, str]
    ) -> Sequence[int]:
        """Return `block` without the records that Arrow cannot parse safely (see `MAX_PLACES`). Add these to `rejected`."""
        if not self._holds_decimals or not may_hold_far_digits(b"\n".join(raws[position] for position in block)):
            return block
        suspects = [position for position in block if may_hold_far_digits(raws[position])]
        rejected |= _faults(raws, suspects, self._sure_fault)
        return [position for position in block if position not in rejected]

    def _tables(
        self, raws: Sequence[bytes], block: Sequence[int], rejected: dict[int, str]
    ) -> Iterator[tuple[Sequence[int], pa.Table]]:
        """Yield tables of the good records of `block`, in order. Add the bad ones to `rejected`."""
        if not block:
            return
        try:
            table = self._parse([raws[position] for position in block])
        except pa.ArrowInvalid as error:
            parts = self._narrow(raws, block, rejected, error)
        else:
            yield block, table
            return
        for part in parts:
            yield from self._tables(raws, part, rejected)

    def _narrow(
        self, raws: Sequence[bytes], block: Sequence[int], rejected: dict[int, str], error: pa.ArrowInvalid
    ) -> list[Sequence[int]]:
        """Return smaller blocks to try instead of `block`, which did not parse; none if its only record is rejected."""
        if len(block) > NARROW:
            if found := _faults(raws, block, self._looks_wrong):
                self._is_wary = True
                rejected |= found
                return [[position for position in block if position not in found]]
            return [block[start : start + NARROW] for start in range(0, len(block), NARROW)]
        if found := _faults(raws, block, self._type_fault):
            rejected |= found
            return [[position for position in block if position not in found]]
        if len(block) == 1:
            rejected[block[0]] = one_line(f"does not fit the columns: {str(error).removesuffix(' in row 0')}")
            return []
        return [block[: len(block) // 2], block[len(block) // 2 :]]

    def _looks_wrong(self, raw: bytes) -> str | None:
        found = object_in(raw)
        return found if isinstance(found, str) else self._suspect_fault(raw, found)

    def _parse(self, records: Sequence[bytes]) -> pa.Table:
        """Parse all records as rows of the declared types.

        Raises:
            pa.ArrowInvalid: A record does not fit. The error does not reliably say which one.
        """
        if not self._schema.names:  # every column holds its value whole
            return self._schema.empty_table()
        text = b"\n".join(records)
        # All text in one block: Arrow splits blocks at newlines, and row numbers in its errors count from the start of
        # a block.
        options = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
        table = pj.read_json(pa.BufferReader(text), read_options=options, parse_options=self._options)
        if table.num_rows != len(records):
            raise pa.ArrowInvalid(f"{len(records)} records became {table.num_rows} rows")
        table = table.cast(self._schema)
        # Searching for the single byte first is ten times faster, and most text has no escapes.
        may_hold_nul = b"\\" in text and b"\\u0000" in text
        for leaf in _leaves(chunk for column in table.columns for chunk in column.chunks):
            if pa.types.is_floating(leaf.type) and pc.all(pc.is_finite(leaf)).as_py() is False:
                raise pa.ArrowInvalid("a number is too large for its column")
            if may_hold_nul and pa.types.is_string(leaf.type) and pc.any(pc.match_substring(leaf, "\0")).as_py():
                raise pa.ArrowInvalid(NUL_IN_TEXT)
        return table


def _blocks(raws: Sequence[bytes], rejected: Mapping[int, str]) -> Iterator[list[int]]:
    """Yield the positions that are not rejected, in order, in blocks of at most `BLOCK_BYTES` or of one record."""
    block: list[int] = []
    size = 0
    for position, raw in enumerate(raws):
        if position in rejected:
            continue
        if block and size + len(raw) > BLOCK_BYTES:
            yield block
            block, size = [], 0
        block.append(position)
        size += len(raw) + 1
    yield block


def _leaves(arrays: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """Yield the arrays of plain values inside `arrays`, at any depth of nesting."""
    for array in arrays:
        if pa.types.is_struct(array.type):
            yield from _leaves(iter(array.flatten()))
        elif pa.types.is_list(array.type):
            yield from _leaves(iter([array.flatten()]))
        else:
            yield array


def _faults(raws: Sequence[bytes], positions: Sequence[int], fault: Callable[[bytes], str | None]) -> dict[int, str]:
    return {position: one_line(reason) for position in positions if (reason := fault(raws[position]))}
