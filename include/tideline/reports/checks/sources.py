"""Checks of a pipeline's brokers, topics and streams."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from croniter import croniter  # type: ignore[import-untyped]  # it has no types

from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, bad, listed, ok, warn
from tideline.domain.facts import TopicFacts
from tideline.flow.advancing import resolving
from tideline.inspection import headroom
from tideline.inspection.brokers import Answer
from tideline.ledger.queries import Row
from tideline.reports.checks import failed

_RUNS_AHEAD = 10
"""The number of scheduled runs from which the longest interval is computed."""
_COMFORTABLE_RUNS = 3
"""Retention should be at least this many intervals between runs, so that some runs may fail."""


def brokers(pipeline: Pipeline, answer: Answer, known: Iterable[Row]) -> Iterable[Check]:
    """Check that the brokers answer, are the cluster that the ledger follows, and have the declared topics."""
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
    """Check the topics' cleanup policy, and their retention against the pipeline's schedule."""
    for topic in answer.topics:
        if topic.compacted:
            yield warn(
                pipeline.name,
                "topics",
                f"{topic.topic} is compacted: records may be removed before they are read, and this cannot be detected",
                "nothing, if only the newest value of a key matters",
            )
        yield _retention(pipeline, topic)


def _retention(pipeline: Pipeline, topic: TopicFacts) -> Check:
    if topic.retention_ms is None:
        return ok(
            pipeline.name, "retention", f"{topic.topic}: no retention by age, or the user may not read the setting"
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
    if kept < between * _COMFORTABLE_RUNS:
        return warn(pipeline.name, "retention", f"{words}: little room for failures", advice)
    return ok(pipeline.name, "retention", words)


def _longest_wait(schedule: str) -> timedelta:
    """Return the longest interval between two of the next runs."""
    times = croniter(schedule, datetime.now(UTC))
    ahead: list[datetime] = [times.get_next(datetime) for _ in range(_RUNS_AHEAD)]
    return max(later - sooner for sooner, later in pairwise(ahead))


def streams(pipeline: Pipeline, answer: Answer, rows: Iterable[Row]) -> Iterable[Check]:
    """Check for streams that are stopped or will stop with the next plan, for records that retention will soon delete, and for hanging transactions.

    Args:
        pipeline: The pipeline of the streams.
        answer: The facts that the brokers report.
        rows: The streams as `tideline streams` shows them.
    """
    shown = list(rows)
    stopped = [row for row in shown if row["state"] == "stopped"]
    stopping = [row for row in shown if row["will_stop"]]
    if stopped:
        found = f"{len(stopped)} stopped: {listed(map(_name_and_reason, stopped), most=1)}"
        yield bad(pipeline.name, "streams", found, _resolving_commands(pipeline, stopped))
    if stopping:
        found = f"the next plan stops {len(stopping)}: {listed(map(_name_and_reason, stopping), most=1)}"
        yield bad(pipeline.name, "streams", found, _resolving_commands(pipeline, stopping))
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
    held = [f"{row['topic']}/{row['partition']} from offset {row['end']} on" for row in shown if row["held"]]
    if held:
        yield bad(
            pipeline.name,
            "transactions",
            f"a transaction hangs, and what lies behind its first record cannot be read: {listed(held)}",
            "find its producer, and abort it: docs/runbook.md#transaction-hangs",
        )
    if not stopped and not stopping and answer.problem is None:
        yield ok(pipeline.name, "streams", f"{sum(row['state'] == 'active' for row in shown)} active, none stopped")


def _name_and_reason(row: Row) -> str:
    return f"{row['topic']}/{row['partition']}: {row['why']}"


def _resolving_commands(pipeline: Pipeline, rows: Iterable[Row]) -> str:
    """Return the advice with the commands that resolve these streams."""
    commands = {resolving(pipeline.name, f"{row['topic']}/{row['partition']}", row["why"]) for row in rows}
    return f"find out why, then decide: {listed(sorted(commands))}"
