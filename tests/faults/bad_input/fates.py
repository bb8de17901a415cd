"""What is sent and what should become of it, said by hand: nothing here comes from the code that is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

Shown = Mapping[str, str | None]
"""One row of output: by column, what Postgres shows as text."""


@dataclass(frozen=True, slots=True)
class Written:
    """In the output, as these rows."""

    rows: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """In the rejects, of this step, with a reason that holds these words."""

    step: str
    words: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """Nowhere: the transform has dropped it."""


Fate = Written | Rejected | Filtered

NO_UTF8 = Rejected("decode", "not valid UTF-8")
NUL = Rejected("decode", "U+0000")
TOMBSTONE = Rejected("decode", "value is null: a tombstone")
"""What the pipelines of text and of bytes reject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One record, and its fate in each pipeline."""

    value: bytes | None
    typed: Fate
    """In the pipeline of JSON with a column of every type."""
    text: Rejected | None = None
    """In the pipeline of text, which has the key in a column as well; None is written as it is."""
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    """None leaves it to the client."""
    by_hand: bool = False
    """No client sends it: the bytes of its batch have to be made by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A kind of record."""

    name: str
    draw: Callable[[Random], Case] = field(repr=False)
    rare: bool = False
    """So large that a few of them have to do."""
