"""What a run or a person asks to be loaded, as values. Checked here, so that forms, commands and conf say the same about a wrong one."""

import re
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Self

from tideline.domain.offsets import OffsetRange

_NAMED = re.compile(r"\s*([A-Za-z0-9._-]+)\s*/\s*(\d+)\s*\[\s*(\d+)\s*,\s*(\d+)\s*\)\s*", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class NamedRange:
    """Offsets of one partition, by the names that people use. Written `topic/partition [start, end)`, as every message writes it."""

    topic: str
    partition: int
    offsets: OffsetRange

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} {self.offsets}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The range that `text` names, such as `ads/3 [100, 200)`.

        Raises:
            ValueError: It does not; says how to write it.
        """
        found = _NAMED.fullmatch(text)
        if not found:
            raise ValueError(f"expected a range like `ads/3 [100, 200)`, found `{text}`")
        topic, partition, start, end = found.groups()
        try:
            offsets = OffsetRange(int(start), int(end))
        except ValueError as error:
            raise ValueError(f"`{text}`: {error}") from error
        return cls(topic, int(partition), offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecords:
    """Everything behind the heads: what open batches hold first, then what is new."""

    until: datetime | None = None
    """Records from this moment on are left for later; None takes all that may be read now."""
    since: datetime | None = None
    """Where the run's interval begins. Only a pipeline that wants the latest records looks at it."""

    def __post_init__(self) -> None:
        for name, moment in (("until", self.until), ("since", self.since)):
            _check_zone(name, moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Records whose timestamp is in `[start, end)`: what of them is not loaded and, with `replace`, what is.

    Raises:
        ValueError: A moment has no zone, or `start` is not before `end`.
    """

    start: datetime
    end: datetime
    replace: bool = False

    def __post_init__(self) -> None:
        _check_zone("start", self.start)
        _check_zone("end", self.end)
        if self.start >= self.end:
            raise ValueError(f"the window must start before it ends, found {self.start} and {self.end}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """Explicit offsets: what of them is not loaded and, with `replace`, what is.

    Raises:
        ValueError: There are none, or two of them overlap.
    """

    ranges: tuple[NamedRange, ...]
    replace: bool = False

    def __post_init__(self) -> None:
        if not self.ranges:
            raise ValueError("expected at least one range, found none")
        in_order = sorted(self.ranges)
        for one, other in pairwise(in_order):
            if (one.topic, one.partition) == (other.topic, other.partition) and one.offsets.overlaps(other.offsets):
                raise ValueError(f"expected ranges that do not overlap, found {one} and {other}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBatch:
    """The ranges of a batch: an open one as it stands, a loaded one again if `replace` says so."""

    batch_id: int
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejects:
    """Rejected records once more, from the bytes that were kept: of one batch, of reasons that contain a text, or all."""

    batch_id: int | None = None
    reason_like: str | None = None


Request = NewRecords | Window | Ranges | OneBatch | Rejects


def _check_zone(name: str, moment: datetime | None) -> None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError(
            f"`{name}` has no zone: {moment}; say which moment it means, such as {moment.isoformat()}Z for UTC"
        )
