"""Records to send and their expected fates, written by hand: nothing here uses the code that is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

Shown = Mapping[str, str | None]
"""One row of output: by column, the text that Postgres shows."""


@dataclass(frozen=True, slots=True)
class Written:
    """The record is in the output, as these rows."""

    rows: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """The record is rejected in this step, with a reason that contains these words."""

    step: str
    words: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """The record is nowhere: the transform has dropped it."""


Fate = Written | Rejected | Filtered

NO_UTF8 = Rejected("decode", "not valid UTF-8")
NUL = Rejected("decode", "U+0000")
TOMBSTONE = Rejected("decode", "value is null: a tombstone")
"""The rejects of the pipelines of text and of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One record, and its expected fate in each pipeline."""

    value: bytes | None
    typed: Fate
    """Fate in the JSON pipeline, which has a column of every type."""
    text: Rejected | None = None
    """Fate in the text pipeline, which also has the key in a column; None: written unchanged."""
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    """None: the client sets it."""
    by_hand: bool = False
    """No client can send it: the bytes of its batch must be built by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A class of records."""

    name: str
    draw: Callable[[Random], Case] = field(repr=False)
    rare: bool = False
    """The records are so large that a few of them must be enough."""
