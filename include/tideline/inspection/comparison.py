"""Compares the streams that the ledger knows with the partitions that the brokers report."""

from collections.abc import Mapping, Sequence

from tideline.domain.streams import compare
from tideline.inspection import headroom
from tideline.inspection.brokers import Answer
from tideline.ledger.queries import Row
from tideline.ledger.reservations import stream_of


def against(known: Sequence[Row], answer: Answer) -> list[Row]:
    """Compare the ledger's streams with the broker's partitions, and show what the next plan would change.

    The next plan stops inconsistent streams and begins new ones.
    """
    compared = compare([stream_of(row) for row in known], answer.topics, answer.missing)
    inconsistent = {stream.stream_id: problem for stream, problem in compared.inconsistent}
    left = headroom.left(answer, known)
    retention = {topic.topic_id: topic.retention_ms for topic in answer.topics}
    rows = [
        _stream(row, answer, inconsistent) | _headroom(left.get(row["stream_id"]), retention.get(row["topic_id"]))
        for row in known
    ]
    rows += [
        {
            "stream_id": None,
            "topic": topic.topic,
            "partition": facts.partition,
            "topic_id": topic.topic_id,
            "state": "new",
            "start_offset": None,
            "head": None,
            "log_start": facts.log_start,
            "end": facts.end,
            "lag": None,
            "held": 0,
            "will_stop": False,
            "why": "begins with the next plan",
            **_headroom(None, topic.retention_ms),
        }
        for topic, facts in compared.unseen
    ]
    return rows


def _stream(row: Row, answer: Answer, inconsistent: Mapping[int, str]) -> Row:
    facts = answer.facts(row["topic_id"], row["partition"])
    holds = answer.holds(row)
    return {
        "stream_id": row["stream_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "topic_id": row["topic_id"],
        "state": row["state"],
        "start_offset": row["start_offset"],
        "head": row["next_offset"],
        "log_start": facts.log_start if facts else None,
        "end": facts.end if facts else None,
        "lag": answer.unread(row),
        "held": facts.n_unstable if facts and holds else 0,
        "will_stop": row["stream_id"] in inconsistent,
        "why": row["stopped_because"]
        or inconsistent.get(row["stream_id"])
        or ("a transaction hangs at its end" if holds else None),
    }


def _headroom(quarters: int | None, retention_ms: int | None) -> Row:
    retention_seconds = retention_ms // 1000 if retention_ms is not None else None
    if quarters is None or retention_ms is None:
        return {"retention_seconds": retention_seconds, "headroom_at_least": None, "headroom": None}
    words = headroom.worded(quarters, retention_ms)
    return {"retention_seconds": retention_seconds, "headroom_at_least": max(0, quarters) / 4, "headroom": words}
