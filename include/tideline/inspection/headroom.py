"""Computes the retention headroom: the time left until retention deletes the oldest unread record.

It looks up offsets by timestamp and reads no records. So the result is a lower bound, and costs one to three lookups per topic.
It does not consider deletion by `retention.bytes`.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from tideline.errors import TidelineError
from tideline.flow.timeline import Timeline
from tideline.inspection.session import Answer
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
    unread = [row for row in streams if row["state"] != "retired" and _is_unread(row, answer)]
    found: dict[int, int] = {}
    for topic in answer.topics:
        heads = {row["partition"]: row for row in unread if row["topic_id"] == topic.topic_id}
        if heads and topic.retention_ms:
            passed = _elapsed_quarters(answer, topic.topic, heads, timedelta(milliseconds=topic.retention_ms))
            found |= {heads[partition]["stream_id"]: 3 - quarters for partition, quarters in passed.items()}
    return found | {row["stream_id"]: -1 for row in unread if _is_deleted(row, answer)}


def behind(answer: Answer, streams: Iterable[Row]) -> dict[int, int]:
    """Return, by stream id, for how many seconds at least its oldest unread record has existed: one of `_AGES`.

    Streams without unread records, and those whose oldest are deleted, have no entry. It costs one lookup per topic for each age that is reached.
    """
    found: dict[int, int] = {}
    unread = [
        row for row in streams if row["state"] != "retired" and _is_unread(row, answer) and not _is_deleted(row, answer)
    ]
    for topic in answer.topics:
        ids = {row["partition"]: row["stream_id"] for row in unread if row["topic_id"] == topic.topic_id}
        heads = {row["partition"]: row["next_offset"] for row in unread if row["stream_id"] in ids.values()}
        found |= {ids[partition]: seconds for partition, seconds in _ages(answer, topic.topic, heads).items()}
    return found


def _ages(answer: Answer, topic: str, heads: Mapping[int, int]) -> dict[int, int]:
    now = datetime.now(UTC)
    ages = dict.fromkeys(heads, 0)
    remaining = dict(heads)
    for seconds in _AGES:
        if not remaining or answer.broker is None:
            break
        try:
            older = Timeline(answer.broker, now).older(topic, remaining, now - timedelta(seconds=seconds))
        except TidelineError:  # the broker answered before, and does not any more: leave unknown ages out
            return {}
        ages |= dict.fromkeys(older, seconds)
        remaining = {partition: remaining[partition] for partition in older}
    return ages


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


def _is_unread(row: Row, answer: Answer) -> bool:
    facts = answer.facts(row["topic_id"], row["partition"])
    return facts is not None and facts.end > row["next_offset"]


def _is_deleted(row: Row, answer: Answer) -> bool:
    facts = answer.facts(row["topic_id"], row["partition"])
    return facts is not None and facts.log_start > row["next_offset"]


def _elapsed_quarters(answer: Answer, topic: str, heads: Mapping[int, Row], retention: timedelta) -> dict[int, int]:
    """Return, by partition, for how many quarters of the retention time its oldest unread record has existed."""
    now = datetime.now(UTC)
    passed = dict.fromkeys(heads, 0)
    unread = {partition: row["next_offset"] for partition, row in heads.items()}
    for quarter in _QUARTERS:
        if not unread or answer.broker is None:
            break
        try:
            aged = Timeline(answer.broker, now).older(topic, unread, now - retention * quarter / 4)
        except TidelineError:  # the broker answered before, and does not any more: leave unknown headroom out
            return {}
        passed |= dict.fromkeys(aged, quarter)
        unread = {partition: unread[partition] for partition in aged}  # no other can be older still
    return passed
