"""Computes the retention headroom: the time left until retention deletes the oldest unread record.

It looks up offsets by timestamp and reads no records. So the result is a lower bound, and costs one to three lookups.
It does not consider deletion by `retention.bytes`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from tideline.domain.facts import Place
from tideline.errors import TidelineError
from tideline.inspection.brokers import Answer
from tideline.kafka.timeline import Timeline
from tideline.ledger.queries import Row

_QUARTERS = (1, 2, 3)
_AGES = (60, 300, 900, 3_600, 21_600, 86_400, 604_800)
"""Ages of records that people tell apart, in seconds: from a minute to a week."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def left(answer: Answer, streams: Iterable[Row]) -> dict[int, int]:
    """Return, by stream id, how many quarters of the retention time are left at least.

    3 is healthy. 0 means less than a quarter, possibly minutes. -1 means that unread records are already deleted.
    Streams without unread records, and streams of topics that keep records forever, have no entry.
    """
    unread = [row for row in streams if row["state"] != "retired" and answer.unread(row)]
    kept = {topic.topic_id: timedelta(milliseconds=topic.retention_ms) for topic in answer.topics if topic.retention_ms}
    ages = {
        _place(row): [kept[row["topic_id"]] * quarter / 4 for quarter in _QUARTERS]
        for row in unread
        if row["topic_id"] in kept
    }
    passed = _reached(answer, unread, ages)
    found = {row["stream_id"]: 3 - passed[_place(row)] for row in unread if _place(row) in passed}
    return found | {row["stream_id"]: -1 for row in unread if _is_deleted(row, answer)}


def behind(answer: Answer, streams: Iterable[Row]) -> dict[int, int]:
    """Return, by stream id, for how many seconds at least its oldest unread record has existed: one of `_AGES`.

    Streams without unread records, and those whose oldest are deleted, have no entry. It costs one lookup for each age that is reached.
    """
    unread = [
        row for row in streams if row["state"] != "retired" and answer.unread(row) and not _is_deleted(row, answer)
    ]
    ages = [timedelta(seconds=seconds) for seconds in _AGES]
    reached = _reached(answer, unread, {_place(row): ages for row in unread})
    seconds = (0, *_AGES)
    return {row["stream_id"]: seconds[reached[_place(row)]] for row in unread if _place(row) in reached}


def _reached(answer: Answer, unread: Iterable[Row], ages: Mapping[Place, Sequence[timedelta]]) -> dict[Place, int]:
    """Return, by partition, how many of its `ages`, which rise, the oldest unread record has reached. Nothing without an answer of the broker."""
    if answer.broker is None:
        return {}
    timeline = Timeline(answer.broker, datetime.now(UTC))
    remaining = {_place(row): row["next_offset"] for row in unread if _place(row) in ages}
    reached = dict.fromkeys(remaining, 0)
    step = 0
    while remaining := {place: offset for place, offset in remaining.items() if step < len(ages[place])}:
        times = {place: timeline.now - ages[place][step] for place in remaining}
        try:
            older = timeline.older_unread(remaining, times, answer.held)
        except TidelineError:  # the broker answered before, and does not any more: leave unknown ages out
            return {}
        step += 1
        reached |= dict.fromkeys(older, step)
        remaining = {place: remaining[place] for place in older}  # no other can be older still
    return reached


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def worded(quarters: int, retention_ms: int) -> str:
    """Format headroom for a table, such as `> 75% of 7 d`."""
    if quarters < 0:
        return "gone"
    bound = f"> {quarters * 25}%" if quarters else "< 25%"
    return f"{bound} of {duration(retention_ms // 1000)}"


def duration(seconds: int) -> str:
    """Format seconds in the largest unit that divides them, such as `7 d`."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size} {unit}"


def _is_deleted(row: Row, answer: Answer) -> bool:
    facts = answer.facts(row["topic_id"], row["partition"])
    return facts is not None and facts.log_start > row["next_offset"]
