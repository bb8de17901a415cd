"""Take records out of the frame of a schema registry: a zero byte, the id of the schema in four bytes, and then the record.

It is what Confluent's serializers write, and those of Apicurio in their setting for Confluent's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schema, Schemas
from tideline.formats.format import NULL, Decoded, RawRecords

Positions = npt.NDArray[np.int64]
Readable = TypeVar("Readable")
HEAD = 5
"""The bytes of a frame."""
_LAST_BYTE = 2**31 - 1
"""Longer than any record. Without an end, Arrow fails where all records are short."""
_LAST_ID = 2**31 - 1
"""Registries count ids as numbers of 32 bits with a sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """The records of a batch that can be decoded, in the order of the batch, and why the others cannot."""

    positions: Positions
    """The position in the batch of each of them."""
    bodies: pa.BinaryArray
    """What to decode, none of it null."""
    rejected: dict[int, str]
    """The reason by position in the batch."""

    def with_decoded(self, found: Decoded) -> Decoded:
        """Return what was decoded of the bodies as what was decoded of the batch."""
        return of_batch(self.positions, found, self.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unframed(Bodies):
    """The records of a batch that have a frame."""

    schema_ids: npt.NDArray[np.int64]


class RegisteredSchemas(Generic[Readable]):
    """Finds the schemas of the records of one task, and remembers them for its next batches.

    One that no registry has is asked for again with each batch: it may have been registered since.

    Args:
        schemas: Where they are found.
        kind: What the registry must call them.
        readable: Prepares a schema, or returns why no record of it can be read.
    """

    def __init__(self, schemas: Schemas, kind: str, readable: Callable[[Schema], Readable | str]) -> None:
        self._schemas, self._kind, self._readable = schemas, kind, readable
        self._known: dict[int, Readable | str] = {}

    def groups(self, raw: RawRecords) -> tuple[Unframed, list[tuple[Positions, Readable]]]:
        """Return what is in the frames of records, and for each schema the positions of its records in `bodies`.

        What is in no group is rejected.
        """
        records = unframed(raw)
        ids = np.unique(records.schema_ids).tolist()
        if new := [one for one in ids if one not in self._known]:
            for schema_id, schema in self._schemas.find(raw.part, new).items():
                self._known[schema_id] = self._of(schema_id, schema)
        groups: list[tuple[Positions, Readable]] = []
        for schema_id in ids:
            rows = np.flatnonzero(records.schema_ids == schema_id)
            known = self._known.get(schema_id, f"the registry has no schema of id {schema_id}")
            if isinstance(known, str):
                records.rejected.update(dict.fromkeys(records.positions[rows].tolist(), one_line(known)))
            else:
                groups.append((rows, known))
        return records, groups

    def _of(self, schema_id: int, schema: Schema) -> Readable | str:
        where = f"schema id {schema_id}" + (f" of {', '.join(schema.subjects)}" if schema.subjects else "")
        if schema.kind != self._kind:
            return f"{where}: expected a schema of the kind {self._kind}, found {schema.kind}"
        found = self._readable(schema)
        return f"{where}: {found}" if isinstance(found, str) else found


def plain(values: pa.Array | pa.ChunkedArray) -> pa.BinaryArray:
    """Return the bytes of records as one array of the type binary."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    return values.cast(pa.binary())


def without_nulls(raw: RawRecords) -> Bodies:
    """Return the records that have bytes. They have no frame."""
    values = plain(raw.own)
    positions = np.flatnonzero(np.asarray(values.is_valid()))
    rejected = dict.fromkeys(np.flatnonzero(np.asarray(values.is_null())).tolist(), NULL)
    return Bodies(positions=positions, bodies=values.drop_null(), rejected=rejected)


def framed(schema_id: int) -> bytes:
    """Return what stands before a record of this schema."""
    return b"\0" + schema_id.to_bytes(HEAD - 1, "big")


def unframed(raw: RawRecords) -> Unframed:
    """Return what is in the frames of records."""
    values = plain(raw.own)
    rejected = dict.fromkeys(np.flatnonzero(np.asarray(values.is_null())).tolist(), NULL)
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), HEAD))
    for at in np.flatnonzero(lengths < HEAD):
        rejected[int(at)] = (
            f"expected a zero byte and the id of a schema in four bytes, found {lengths[at]} bytes in all"
        )
    long = np.flatnonzero(np.asarray(values.is_valid()) & (lengths >= HEAD))
    heads = pc.binary_slice(values.take(pa.array(long)), 0, HEAD).cast(pa.binary(HEAD))
    bytes_ = np.frombuffer(heads.buffers()[1] or b"", np.uint8, len(long) * HEAD).reshape(-1, HEAD)
    ids = bytes_[:, 1:].copy().view(">u4")[:, 0].astype(np.int64)
    has_frame = (bytes_[:, 0] == 0) & (ids <= _LAST_ID)
    for at in np.flatnonzero(~has_frame):
        found = f"found {bytes_[at].tobytes().hex(' ')}"
        rejected[int(long[at])] = f"expected a zero byte and the id of a schema in four bytes, {found}"
    positions = long[has_frame]
    return Unframed(
        positions=positions,
        schema_ids=ids[has_frame],
        bodies=pc.binary_slice(values.take(pa.array(positions)), HEAD, _LAST_BYTE),
        rejected=rejected,
    )


def of_batch(positions: Positions, found: Decoded, rejected: Mapping[int, str]) -> Decoded:
    """Return what was decoded of some records of a batch, and why the others are rejects, as what was decoded of the batch.

    Args:
        positions: Where the decoded records are in the batch.
        found: What was decoded.
        rejected: The reasons of others, by position in the batch.
    """
    reasons = {**rejected, **{int(positions[row]): reason for row, reason in found.rejected.items()}}
    return Decoded(
        table=found.table,
        kept=pa.array(positions).take(found.kept),
        rejected=dict(sorted(reasons.items())),
        undeclared={name: one._replace(first=int(positions[one.first])) for name, one in found.undeclared.items()},
    )
