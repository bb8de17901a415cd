"""Changes of Debezium in Avro, in the frame of a schema registry. The decoder of Avro reads them, and they are sorted here."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.columns import WHOLE, ArrayType, ColumnType, SimpleType, StructType
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schema, Schemas
from tideline.formats.avro.avro_format import RegisteredAvroFormat
from tideline.formats.avro.schema import parsed, record_of
from tideline.formats.cursor import Flags
from tideline.formats.debezium.changes import DELETES, LEAVES_A_ROW, Beside, no_row, untold, with_tombstones
from tideline.formats.debezium.connect_values import NOT_THERE, SIGNS, is_unavailable
from tideline.formats.format import Decode, Decoded, RawRecords
from tideline.formats.reader import REST, Reader, SchemaFit
from tideline.formats.undeclared import cleaned

_ROW = "after"
_TEXT, _WHOLE = SimpleType("string"), SimpleType(WHOLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeReader(Reader):
    """What is wanted of the records: of what stands beside the rows only what is declared, so only fields of rows are undeclared."""

    of_key: frozenset[str] = field(default=frozenset())

    def refusal(self, undeclared: Iterable[str]) -> str | None:
        """See `Reader`."""
        return Reader.refusal(self, self.of_rows(undeclared))

    def of_rows(self, undeclared: Iterable[str]) -> list[str]:
        """Return the fields of rows among undeclared ones, by their names in the row."""
        within = (name.removeprefix(f"{_ROW}.") for name in undeclared if name.startswith(f"{_ROW}."))
        return [name for name in within if name not in self.of_key]


@dataclass(frozen=True, slots=True)
class RegisteredDebeziumFormat:
    """Changes in Avro, each of which names the schema that it was written with."""

    columns: Mapping[str, ColumnType]
    envelope: Mapping[str, ColumnType]
    """See `DebeziumFormat`."""
    refuses_undeclared: bool = False
    rest: str | None = None
    of_key: frozenset[str] = frozenset()

    def beside_key(self, names: Collection[str]) -> "RegisteredDebeziumFormat":
        """See `TellsDeletions`."""
        return replace(self, of_key=frozenset(names))

    def decoder(self, schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        reader = self._reader()
        decode, beside = RegisteredAvroFormat(reader).decoder(schemas), Beside(self.envelope)

        def decoded(raw: RawRecords) -> Decoded:
            found = decode(raw)
            nulls = np.flatnonzero(np.asarray(raw.own.is_null())).tolist()
            rejected = {position: reason for position, reason in found.rejected.items() if position not in {*nulls}}
            named = {name: found.undeclared[f"{_ROW}.{name}"] for name in reader.of_rows(found.undeclared)}
            return self._sorted(replace(found, rejected=rejected, undeclared=named), nulls, beside)

        return decoded

    def compared(self, schema: Schema) -> SchemaFit:
        """Compare a schema with the declared columns."""
        reader = self._reader()
        fit = RegisteredAvroFormat(reader).compared(schema)
        if fit.reason is not None:
            return fit
        row = record_of(dict(parsed(schema.text, [one.text for one in schema.references]).fields).get(_ROW))
        fields = [name for name, _ in row.fields] if row else []
        return replace(reader, columns=self.columns).compared(
            name for name in fields if name not in self.of_key - {*self.columns}
        )

    def _row(self) -> dict[str, ColumnType]:
        """Return what is read of rows: the columns, and with one for all other fields also those of the key, so that they are not among them."""
        of_rest = {} if self.rest is None else {**dict.fromkeys(sorted(self.of_key), _WHOLE), REST: _WHOLE}
        return {**of_rest, **self.columns}

    def _reader(self) -> ChangeReader:
        columns = {**Beside(self.envelope).tree(), "op": _TEXT, _ROW: StructType(fields=tuple(self._row().items()))}
        return ChangeReader(
            columns=columns, aliases={}, defaults={}, refuses_undeclared=self.refuses_undeclared, of_key=self.of_key
        )

    def _sorted(self, found: Decoded, nulls: Sequence[int], beside: Beside) -> Decoded:
        """Return changes as rows, deletions and rejects."""
        ops, rows = (found.table.column(name).combine_chunks() for name in ("op", _ROW))
        said = beside.of_table(found.table)
        deletes = np.asarray(pc.fill_null(pc.equal(ops, DELETES), False))
        leaves = np.asarray(pc.is_in(ops, value_set=pa.array(LEAVES_A_ROW))) & np.asarray(rows.is_valid())
        rejected = dict(found.rejected)
        for at in np.flatnonzero(~deletes & ~leaves):
            rejected[found.kept[at].as_py()] = one_line(no_row(ops[at].as_py()))
        for name, untold_ones in self._untold(rows):
            for at in np.flatnonzero(untold_ones & leaves):
                rejected[found.kept[at].as_py()] = one_line(untold(name))
                leaves[at] = False
        parts = dict(zip(self._row(), rows.flatten(), strict=True))
        columns = {name: parts[name] for name in self.columns}
        if self.rest is not None:
            columns[self.rest] = parts[REST]
        table = pa.table(columns | dict(zip(said.column_names, said.columns, strict=True))).filter(pa.array(leaves))
        of_deletions = said.filter(pa.array(deletes)) if said.column_names else said
        return Decoded(
            table=table,
            kept=found.kept.filter(pa.array(leaves)),
            rejected=dict(sorted(rejected.items())),
            undeclared=found.undeclared,
            deletions=with_tombstones(found.kept.filter(pa.array(deletes)), of_deletions, nulls),
        )

    def _untold(self, rows: pa.StructArray) -> Iterator[tuple[str, Flags]]:
        """Yield the columns of which the database did not tell some values, with those rows."""
        for name, kind in self.columns.items():
            if kind in (_TEXT, ArrayType(element=_TEXT)):
                values = pc.struct_field(rows, name)
                texts = values if kind == _TEXT else values.flatten()
                if pc.any(pc.equal(texts, NOT_THERE)).as_py():
                    yield name, np.array([is_unavailable(one) for one in values.to_pylist()], np.bool_)
            elif kind == _WHOLE:
                yield name, np.array([is_unavailable(one) for one in _suspicious(rows, name)], np.bool_)
        for place, others in enumerate(_suspicious(rows, REST) if self.rest is not None else ()):
            for name in (one for one in others or () if is_unavailable(others[one])):
                yield cleaned(name), np.arange(len(rows)) == place


def _suspicious(rows: pa.StructArray, name: str) -> list[Any]:
    """Return those values of a column of JSON that may stand for what the database did not tell; None for the others."""
    texts = pc.struct_field(rows, name)
    signs = [pc.match_substring(texts, sign) for sign in SIGNS]
    hold_one = pc.fill_null(pc.or_(*signs), False)
    return [orjson.loads(one) if one is not None else None for one in pc.if_else(hold_one, texts, None).to_pylist()]
