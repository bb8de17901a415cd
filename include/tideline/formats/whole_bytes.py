"""The formats `text` and `bytes`: the bytes as a whole are one column."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from tideline.declaration.source import Key, Value
from tideline.domain.reject_reasons import one_line
from tideline.domain.schemas import Schemas
from tideline.formats.format import NULL, Decode, Decoded, RawRecords
from tideline.formats.ranges import NUL_IN_TEXT


@dataclass(frozen=True, slots=True)
class WholeBytes:
    """One column of text or of bytes.

    Text is strict: invalid UTF-8 and U+0000 are rejected. Empty text is a value, and so are no bytes.
    """

    name: str
    kind: Literal["text", "bytes"]

    def decoder(self, _schemas: Schemas) -> Decode:
        """Return what decodes the batches of one task."""
        return self._decoded

    def _decoded(self, raw: RawRecords) -> Decoded:
        values, (arrow, fault) = raw.own, _KINDS[self.kind]
        found = ((position, fault(value)) for position, value in enumerate(values.to_pylist()))
        rejected = {position: one_line(reason) for position, reason in found if reason}
        kept = [position for position in range(len(values)) if position not in rejected]
        if rejected:
            values = values.filter(pa.array([position not in rejected for position in range(len(values))], pa.bool_()))
        return Decoded(
            table=pa.table({self.name: values.cast(arrow)}), kept=pa.array(kept, pa.int64()), rejected=rejected
        )


def declared(section: Value | Key, _folder: Path) -> WholeBytes:
    """Return the format of a section, whose name is that of the column."""
    return WholeBytes(type(section).__name__.lower(), "text" if section.format == "text" else "bytes")


def _text_fault(raw: bytes | None) -> str | None:
    if raw is None:
        return NULL
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not valid UTF-8: {error.reason} at byte {error.start}"
    return NUL_IN_TEXT if b"\0" in raw else None


def _null_fault(raw: bytes | None) -> str | None:
    return NULL if raw is None else None


_KINDS: dict[str, tuple[pa.DataType, Callable[[bytes | None], str | None]]] = {
    "text": (pa.string(), _text_fault),
    "bytes": (pa.binary(), _null_fault),
}
