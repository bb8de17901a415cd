"""Timestamps of records: which of them can be right, and where in a log a time begins. Pure functions, which know no broker.

Producers write the timestamps, so any value is possible: 1970, 2099, microseconds in place of milliseconds, and in any order.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from tideline.domain.facts import Place, RecordFacts

TOLERANCE = timedelta(minutes=1)
"""How far a timestamp may be ahead of this clock and still count as right: clocks differ a little, and that needs no warning."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(when: datetime) -> int:
    """Return `when` in milliseconds since 1970, rounded up. Times before 1970 give 0, because Kafka has no timestamps before 1970."""
    return max(0, -((_EPOCH - when) // _MILLISECOND))


def is_ahead(timestamp: int, now: datetime) -> bool:
    """Return whether a timestamp is in the future. Its record does not show where in the log that time begins."""
    return timestamp > milliseconds(now + TOLERANCE)


def written(timestamp: int) -> str:
    """Return the timestamp as text: in ISO format, or in milliseconds if it is too large for a `datetime`."""
    try:
        return (_EPOCH + timestamp * _MILLISECOND).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{timestamp} ms after 1970"


def is_late(records: Iterable[RecordFacts], when: datetime, now: datetime) -> bool | None:
    """Return whether the first record that is not ahead of the clock is at or after `when`, or None if there is no such record."""
    for record in records:
        if not is_ahead(record.timestamp, now):
            return record.timestamp >= milliseconds(when)
    return None


def first_late(
    late: Callable[[Mapping[Place, int]], Mapping[Place, bool]], parts: Mapping[Place, tuple[int, int]]
) -> dict[Place, int]:
    """Return, for the part `[start, end)` of each partition, the first offset from which on records are late, or `end`.

    Reads few records, in steps that double and then halve. All partitions take a step together, so the number of looks does not grow with theirs.
    If timestamps are not in order, the result is one of several such offsets. A later time never gives a lower offset, so adjacent windows neither
    overlap nor leave offsets out.

    Args:
        late: Returns, by partition, whether the record at an offset, or the next record after it, is late.
        parts: By partition, the first offset to search, and the log end.
    """
    searches = {place: _search(*part) for place, part in parts.items()}
    found: dict[Place, int] = {}
    answers: Mapping[Place, bool | None] = dict.fromkeys(searches)
    while answers:
        asked = {}
        for place, answer in answers.items():
            try:
                asked[place] = searches[place].send(answer)
            except StopIteration as ended:
                found[place] = ended.value
        answers = late(asked) if asked else {}
    return found


def _search(start: int, end: int) -> Generator[int, bool | None, int]:
    """Search one part: yield the offset to look at, be sent whether it is late, and return the result."""
    if start >= end or (yield start):
        return min(start, end)
    before, step = start, 1
    while before + step < end and not (yield before + step):
        before, step = before + step, 2 * step
    found = min(before + step, end)
    while found - before > 1:
        middle = (before + found) // 2
        if (yield middle):
            found = middle
        else:
            before = middle
    return found
