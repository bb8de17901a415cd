"""Timestamps of records: which of them can be right, and where in a log a time lies. Pure: knows no brokers.

Producers write them, so they may say anything: 1970, 2099, microseconds in place of milliseconds, and in any order.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

from tideline.domain.facts import RecordFacts

TOLERANCE = timedelta(minutes=1)
"""A record may be this much newer than the clock that looks at it: clocks differ a little, and that needs no warning."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(when: datetime) -> int:
    """Since 1970, the first whole one that is not before `when`; Kafka knows none before 1970."""
    return max(0, -((_EPOCH - when) // _MILLISECOND))


def is_ahead(timestamp: int, now: datetime) -> bool:
    """Whether a record carries a time that has not come yet: it says nothing about where in the log that time lies."""
    return timestamp > milliseconds(now + TOLERANCE)


def written(timestamp: int) -> str:
    """As people read it; a date where the calendar goes that far."""
    try:
        return (_EPOCH + timestamp * _MILLISECOND).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{timestamp} ms after 1970"


def is_late(records: Iterable[RecordFacts], when: datetime, now: datetime) -> bool | None:
    """Whether the first of the records that is not ahead of the clock is as late as `when`; None where all of them are ahead, or there are none."""
    for record in records:
        if not is_ahead(record.timestamp, now):
            return record.timestamp >= milliseconds(when)
    return None


def first_late(late: Callable[[int], bool], start: int, end: int) -> int:
    """The first offset of `[start, end)` from which on records are late, or `end`.

    Looks at few of them, in steps that grow and then halve: where their order is disturbed it is one of several such offsets. For a later time it
    never gives a lower offset, so that windows side by side share nothing and leave nothing out.

    Args:
        late: Whether the record at an offset, or the next one behind it, is late.
        start: Where to begin.
        end: Where the log ends.
    """
    if start >= end or late(start):
        return min(start, end)
    before, step = start, 1
    while before + step < end and not late(before + step):
        before, step = before + step, 2 * step
    found = min(before + step, end)
    while found - before > 1:
        middle = (before + found) // 2
        if late(middle):
            found = middle
        else:
            before = middle
    return found
