"""Turn output rows into records of a topic: key, value, headers. And what keeps the columns of a transform from becoming such records."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from tideline.declaration.kafka_sink import KafkaSink
from tideline.formats.arrow_types import is_bytes, is_text
from tideline.formats.as_json import NO_FORM, JsonObjects, can_encode, encoded, objects
from tideline.formats.encoder import Encoder, UnencodableError

_OVERHEAD = 512
"""Bytes of a batch of one record besides its key, value and headers, with room to spare. Among them are the headers that name its origin
and its attempt."""
_OF_A_HEADER = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """How rows become records."""

    key: tuple[str, ...]
    headers: tuple[str, ...]
    item: str | None
    value: tuple[str, ...]
    """The other columns, and those of them for which the schema of the value has a field."""
    encoder: Encoder = field(default_factory=JsonObjects)
    """Writes the value."""
    max_bytes: int
    """The largest batch of records that the topic takes."""
    needs_key: bool
    """Whether the topic is compacted: it refuses records without a key."""

    def encode(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of the staging table that hold the records of these rows.

        Raises:
            UnencodableError: A row cannot be sent. The message says why, and names no other row.
            pa.ArrowInvalid: As above.
        """
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names if name != "kafka"}
        value = self.encoder.encoded({name: columns[name] for name in self.value}, len(rows))
        found = {"key": self._key(columns, len(rows)), "value": value} | {
            f"header_{number}": as_bytes(columns[name]) for number, name in enumerate(self.headers)
        }
        self._check(found)
        return found | self._item(columns, len(rows))

    def _key(self, columns: dict[str, pa.Array], length: int) -> pa.Array:
        if not self.key:
            return pa.nulls(length, pa.binary())
        if len(self.key) == 1:
            return as_bytes(columns[self.key[0]])
        return objects(self.key, (columns[name] for name in self.key), length).cast(pa.binary())

    def _item(self, columns: dict[str, pa.Array], length: int) -> dict[str, pa.Array]:
        if self.item is None:
            return {"item": pa.nulls(length, pa.string()), "item_order": pa.repeat(pa.scalar(b""), length)}
        items = columns[self.item]
        if items.null_count:
            raise UnencodableError(
                f"column {self.item}: expected a value that orders the rows of the record, found null"
            )
        texts = items.cast(pa.string())
        order = texts.cast(pa.binary()) if is_text(items.type) else _sortable(items)
        return {"item": texts, "item_order": order}

    def _check(self, found: dict[str, pa.Array]) -> None:
        if self.needs_key and found["key"].null_count:
            raise UnencodableError(
                f"column {self.key[0]}: expected a key, which a compacted topic requires, found null"
            )
        sizes = pa.scalar(_OVERHEAD + sum(_OF_A_HEADER + len(name.encode()) for name in self.headers), pa.int64())
        for column in found.values():
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()))
        largest = pc.max(sizes).as_py() or 0
        if largest > self.max_bytes:
            raise UnencodableError(
                f"the record has more bytes than the {self.max_bytes} that the topic takes (max.message.bytes)"
            )


def as_bytes(values: pa.Array) -> pa.Array:
    """Return texts and bytes as they are, and every other value as JSON. A null stays null."""
    if is_text(values.type) or is_bytes(values.type):
        return values.cast(pa.binary())
    return pc.if_else(values.is_valid(), encoded(values).cast(pa.binary()), None)


def _sortable(numbers: pa.Array) -> pa.Array:
    """Return integers as bytes that sort in the same order: eight bytes, the largest first, with the sign turned over."""
    return pa.array([(number + 2**63).to_bytes(8, "big") for number in numbers.to_pylist()], pa.binary())


def _value(sink: KafkaSink, produced: pa.Schema, encoder: Encoder) -> tuple[str, ...]:
    """Return the columns of the value. A schema that has a field for a column of the key or of a header is given that, too."""
    beside = {"kafka", *({*sink.key, *sink.headers} - {*encoder.fields})}
    return tuple(name for name in produced.names if name not in beside)


def records(sink: KafkaSink, produced: pa.Schema, encoder: Encoder, *, max_bytes: int, needs_key: bool) -> Records:
    """Return how rows with these columns become records of the declared topic. Ask `problems` before."""
    return Records(
        key=sink.key,
        headers=sink.headers,
        item=sink.item,
        value=_value(sink, produced, encoder),
        encoder=encoder,
        max_bytes=max_bytes,
        needs_key=needs_key,
    )


def problems(sink: KafkaSink, produced: pa.Schema, encoder: Encoder) -> list[str]:
    """Return what keeps rows with these columns from becoming records of the declared topic; nothing if they can."""
    found = [f"{name}: produced twice" for name, count in Counter(produced.names).items() if count > 1]
    if found:
        return found
    named = {"key": sink.key, "headers": sink.headers, "item": (sink.item,) if sink.item else ()}
    found += [
        f"{name}: missing, and sink.{key} names it"
        for key, names in named.items()
        for name in names
        if name not in produced.names
    ]
    if found:
        return found
    for name in (*sink.key, *sink.headers):
        if not can_encode(kind := produced.field(name).type):
            found.append(f"{name}: {NO_FORM.format(kind)}")
    if sink.item and not (is_text(kind := produced.field(sink.item).type) or at.is_signed_integer(kind)):
        found.append(f"{sink.item}: expected a signed integer or a text to order rows by, found Arrow type {kind}")
    return found + encoder.problems({name: produced.field(name).type for name in _value(sink, produced, encoder)})
