"""Requests of runs and operators to load data, as values. Checked here, so that forms, commands and conf report the same errors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Self

from tideline.domain.offsets import OffsetRange

_TOPIC = re.compile(r"([A-Za-z0-9._-]+)(?:/(\d+))?", re.ASCII)
_NAMED = re.compile(r"\s*([A-Za-z0-9._-]+)\s*/\s*(\d+)\s*\[\s*(\d+)\s*,\s*(\d+)\s*\)\s*", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class NamedRange:
    """Offsets of one partition, by topic and partition number. Every message writes it as `topic/partition [start, end)`."""

    topic: str
    partition: int
    offsets: OffsetRange

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} {self.offsets}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the range that `text` names, such as `ads/3 [100, 200)`.

        Raises:
            ValueError: `text` names no range. The message says how to write one.
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
    """Everything after the heads: first the ranges of open batches, then new records."""

    until: datetime | None = None
    """Records from this time on are left for a later run. None takes everything up to the last stable offset."""
    since: datetime | None = None
    """Where the run's interval begins. Only pipelines with `latest_wins` use it."""

    def __post_init__(self) -> None:
        for name, moment in (("until", self.until), ("since", self.since)):
            _check_zone(name, moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Records whose timestamp is in `[start, end)`: those that are not loaded and, with `replace`, also those that are.

    Raises:
        ValueError: A time has no zone, or `start` is not before `end`.
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
    """Explicit offsets: those that are not loaded and, with `replace`, also those that are.

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
    """The ranges of a batch: an open batch is written with its ranges, a loaded one is loaded again with `replace`."""

    batch_id: int
    replace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRejects:
    """Rejects to decode again from the bytes that were kept: those of one batch, those whose reason contains a text, or all."""

    batch_id: int | None = None
    reason_like: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """Go back to the end of a batch, and load what came after it again. It is no request to plan offsets: `flow.rewind` carries it out.

    Raises:
        ValueError: The number of the batch is negative.
    """

    to_batch: int
    """0 is the beginning."""
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.to_batch < 0:
            raise ValueError(f"expected a batch, or 0 for the beginning, found {self.to_batch}")


Request = NewRecords | Window | Ranges | OneBatch | KeptRejects


def _check_zone(name: str, moment: datetime | None) -> None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError(
            f"`{name}` has no zone: {moment}; say which moment it means, such as {moment.isoformat()}Z for UTC"
        )


def request_for(
    *, batch: int | None, ranges: Sequence[str], start: str | None, end: str | None, replace: bool
) -> Request:
    """Return the request for one batch, ranges or a window, of which exactly one must be given, as a person writes them.

    Raises:
        ValueError: None or several are given, or the one given is invalid. The message names the options of the command line.
    """
    given = [
        name for name, value in (("--batch", batch), ("--range", ranges), ("--from and --to", start or end)) if value
    ]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise ValueError(f"expected one of --batch, --range, or --from with --to; found {found}")
    if batch:
        return OneBatch(batch_id=batch, replace=replace)
    if ranges:
        return Ranges(ranges=tuple(map(NamedRange.parse, ranges)), replace=replace)
    if start is None or end is None:
        raise ValueError("a window needs both --from and --to")
    return Window(start=moment("--from", start), end=moment("--to", end), replace=replace)


def topic_and_partition(text: str) -> tuple[str, int | None]:
    """Parse `ads`, which means all partitions, or `ads/3`, which means one.

    Raises:
        ValueError: The text is not a topic name, or the part after the slash is not a number.
    """
    found = _TOPIC.fullmatch(text)
    if not found:
        raise ValueError(f"expected TOPIC or TOPIC/PARTITION like ads/3, found {text!r}")
    topic, partition = found.groups()
    return topic, int(partition) if partition else None


def moment(name: str, text: str) -> datetime:
    """Parse a timestamp with a zone.

    Args:
        name: What it is, for messages.
        text: As a person writes it.

    Raises:
        ValueError: The text is not a timestamp, or has no zone.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name}: expected a moment like 2026-11-21T14:00:00Z, found {text}") from None
    if found.tzinfo is None:
        raise ValueError(f"{name} has no zone: {text}; say which moment it means, such as {found.isoformat()}Z for UTC")
    return found
