"""Each pipeline's declaration, brokers, topics and streams."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from croniter import croniter  # type: ignore[import-untyped]  # it has no types

from tideline.cli import headroom
from tideline.cli.checks import Check, bad, failed, listed, ok, warn
from tideline.cli.session import Answer
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import TopicFacts
from tideline.flow.advancing import resolving
from tideline.ledger.queries import Row

_LOOKED_AHEAD = 10
_COMFORTABLE = 3
"""Retention should leave room for so many runs that come to nothing."""


def brokers(pipeline: Pipeline, answer: Answer, known: Iterable[Row]) -> Iterable[Check]:
    """Whether they answer, are the cluster that the ledger follows, and have the declared topics."""
    if answer.problem:
        yield failed(pipeline.name, "brokers", answer.problem)
        return
    followed = {row["cluster_id"] for row in known if row["state"] != "retired"}
    strangers = [topic.cluster_id for topic in answer.topics if followed and topic.cluster_id not in followed]
    if strangers:
        yield bad(
            pipeline.name,
            "brokers",
            f"the ledger follows cluster {listed(sorted(followed))}, cluster {strangers[0]} answers",
            "point source.bootstrap_servers at the cluster whose offsets these are",
        )
    else:
        yield ok(pipeline.name, "brokers", f"answer for {listed(topic.topic for topic in answer.topics) or 'no topic'}")
    for error in answer.missing.values():
        yield failed(pipeline.name, "topics", error)


def topics(pipeline: Pipeline, answer: Answer) -> Iterable[Check]:
    """What the topics' settings mean for this pipeline."""
    for topic in answer.topics:
        if topic.compacted:
            yield warn(
                pipeline.name,
                "topics",
                f"{topic.topic} is compacted: records may vanish before they are read, and nobody can tell",
                "nothing, if only the newest value of a key matters",
            )
        yield _retention(pipeline, topic)


def _retention(pipeline: Pipeline, topic: TopicFacts) -> Check:
    if topic.retention_ms is None:
        return ok(
            pipeline.name, "retention", f"{topic.topic}: age deletes nothing, or the user may not see the setting"
        )
    kept = timedelta(milliseconds=topic.retention_ms)
    words = f"{topic.topic} keeps records for {headroom.duration(topic.retention_ms // 1000)}"
    between = _longest_wait(pipeline.schedule) if pipeline.schedule else None
    if between is None:
        return ok(pipeline.name, "retention", f"{words}; runs are started by hand")
    words += f", runs are up to {headroom.duration(int(between.total_seconds()))} apart"
    advice = "raise the topic's retention.ms, or let the pipeline run more often"
    if kept <= between:
        return bad(pipeline.name, "retention", words, advice)
    if kept < between * _COMFORTABLE:
        return warn(pipeline.name, "retention", f"{words}: little room for failures", advice)
    return ok(pipeline.name, "retention", words)


def _longest_wait(schedule: str) -> timedelta:
    """Between two runs, over the next few."""
    times = croniter(schedule, datetime.now(UTC))
    ahead: list[datetime] = [times.get_next(datetime) for _ in range(_LOOKED_AHEAD)]
    return max(later - sooner for sooner, later in pairwise(ahead))


def streams(pipeline: Pipeline, answer: Answer, rows: Iterable[Row]) -> Iterable[Check]:
    """Streams that stand still, or are about to, and records that are about to be deleted unread.

    Args:
        pipeline: Whose streams they are.
        answer: What the brokers say.
        rows: The streams as `tideline streams` shows them.
    """
    shown = list(rows)
    stopped = [row for row in shown if row["state"] == "stopped"]
    stopping = [row for row in shown if row["will_stop"]]
    if stopped:
        found = f"{len(stopped)} stopped: {listed(map(_worded, stopped), most=1)}"
        yield bad(pipeline.name, "streams", found, _resolving(pipeline, stopped))
    if stopping:
        found = f"the next plan stops {len(stopping)}: {listed(map(_worded, stopping), most=1)}"
        yield bad(pipeline.name, "streams", found, _resolving(pipeline, stopping))
    late = [
        f"{row['topic']}/{row['partition']} {row['headroom']}"
        for row in shown
        if row["headroom_at_least"] is not None and row["headroom_at_least"] < 1 / 2 and not row["will_stop"]
    ]
    if late:
        yield warn(
            pipeline.name,
            "headroom",
            f"retention is close to unread records: {listed(late)}",
            "let the pipeline run now, or raise retention.ms",
        )
    if not stopped and not stopping and answer.problem is None:
        yield ok(pipeline.name, "streams", f"{sum(row['state'] == 'active' for row in shown)} active, none stopped")


def _worded(row: Row) -> str:
    return f"{row['topic']}/{row['partition']}: {row['why']}"


def _resolving(pipeline: Pipeline, rows: Iterable[Row]) -> str:
    """The commands with which a person decides."""
    commands = {resolving(pipeline.name, f"{row['topic']}/{row['partition']}", row["why"]) for row in rows}
    return f"find out why, then decide: {listed(sorted(commands))}"
