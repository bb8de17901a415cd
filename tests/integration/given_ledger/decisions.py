"""What operators decide about offsets (abandon, skip, accept a loss, adopt a topic, fill a hole), and scenes in which they must."""

from typing import Unpack

from faults.memory import Cluster, MemoryBroker
from faults.memory.memory_broker import Log
from given_ledger.ledgers import PIPELINE, RUN, claim, plan, publish, published, query, stage, start_streams
from given_ledger.planners import Limits, decide, declared, piece, run
from given_topics.topics import produce
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import PartitionFacts
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NewRecords
from tideline.domain.states import BatchKind
from tideline.ledger import reservations
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Reservation, Run
from tideline_stack.broker import LocalBroker

WHY = "not needed any more"


def filled(broker: LocalBroker, topic: str) -> Pipeline:
    """Declare a pipeline over ten records in partition 0 and four in partition 1; a batch has at most seven."""
    produce(broker, topic, 10)
    produce(broker, topic, 4, partition=1)
    return declared(broker.bootstrap, topic, batch_records=7)


def skip(url: str, pipeline: Pipeline, start: int, end: int, *, partition: int = 0, reason: str = WHY) -> list[int]:
    return decide(url, pipeline, flow.skip, piece(pipeline, start, end, partition), reason=reason)


def abandon(url: str, batch_id: int, *, reason: str = WHY) -> None:
    with Ledger(url, actor="ada") as ledger:
        flow.abandon(ledger, batch_id, reason=reason)


def story(ledger: Ledger, since: int = 0) -> list[tuple[str, str, str]]:
    """Return (actor, action, reason) of people's acts, in order."""
    return query(
        ledger,
        "SELECT actor, action, detail ->> 'reason' FROM tideline.event WHERE event_id > %s AND actor = 'ada'"
        " AND action <> 'move head' ORDER BY event_id",
        since,
    )


def fall_silent(ledger: Ledger) -> None:
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")


REPLACED = "offsets [{}, {}) may hold other records than those that were planned or read: the log was cut at {}"


def accept(url: str, pipeline: Pipeline, topic: str, partition: int | None = None) -> list[str]:
    return decide(url, pipeline, flow.accept_loss, topic, partition, reason=WHY)


def adopt(url: str, pipeline: Pipeline, topic: str) -> list[str]:
    return decide(url, pipeline, flow.adopt_topic, topic, reason=WHY)


def stopped(ledger: Ledger) -> list[tuple[str, int, str]]:
    return query(
        ledger, "SELECT topic, partition, stopped_because FROM tideline.stream WHERE state = 'stopped' ORDER BY 1, 2"
    )


def decided(ledger: Ledger) -> list[tuple[str, str, str]]:
    """Return (action, topic and partition, reason) of the effects of people's decisions, in order."""
    return query(
        ledger,
        "SELECT action, topic || '/' || partition, detail ->> 'reason' FROM tideline.event LEFT JOIN tideline.stream USING (stream_id)"
        " WHERE actor = 'ada' AND action NOT IN ('move head', 'stop') ORDER BY event_id",
    )


class Cut:
    """A ledger and its pipeline, over logs that the test truncates."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.cluster, self.turn = ledger, Cluster(), 0
        self.logs = self.cluster.create("ads", 20, 5).logs
        self.declare()

    def declare(self, **limits: Unpack[Limits]) -> None:
        self.pipeline = declared("nowhere:9092", "ads", **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def end_at(self, *ends: int) -> None:
        """Truncate or extend the logs, from the first on, so that they end there."""
        for log, end in zip(self.logs, ends, strict=False):
            log.cut(end)
            log.append(end - log.end)

    def plan(self) -> list[int]:
        self.turn += 1
        return flow.plan(self.ledger, self.broker, self.pipeline, run(f"cut {self.turn}"), NewRecords()).batch_ids

    def accept(self) -> list[str]:
        return flow.accept_loss(self.ledger, self.broker, self.pipeline, "ads", 0, reason=WHY)


def replace_from(log: Log, offset: int, *, end: int) -> None:
    """Truncate the log at the offset, and let it grow to `end` again before the next run."""
    log.cut(offset)
    log.append(end - log.end)


def reject(ledger: Ledger, attempt: Attempt, stream: int, *offsets: int) -> None:
    """Stage rejects as a task does."""
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[stream] * len(offsets),
            offsets=list(offsets),
            steps=["decode"] * len(offsets),
            reasons=["not JSON"] * len(offsets),
            **{name: [None] * len(offsets) for name in ("timestamps_ms", "keys", "values", "headers")},
        )


def load(
    ledger: Ledger, stream: int, start: int, end: int, *rejected: int, kind: BatchKind = BatchKind.LIVE
) -> Attempt:
    """Publish a batch with these rejects."""
    attempt = claim(ledger, plan(ledger, {stream: (start, end)}, kind=kind))
    stage(ledger, attempt)
    reject(ledger, attempt, stream, *rejected)
    publish(ledger, attempt, written={stream: end - start - len(rejected)})
    return attempt


HOLE = "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, %s, 'skipped', 'poison', 'ada')"


def replay(ledger: Ledger, stream: int, start: int, end: int, kind: BatchKind = BatchKind.REPLAY) -> Attempt:
    """Claim and stage a batch over offsets of one stream."""
    wanted = Reservation(
        offsets=OffsetRange(start, end), gaps_allowed=False, facts=PartitionFacts(partition=0, log_start=0, end=end)
    )
    with ledger.transaction():
        [batch_id] = reservations.reserve(
            ledger, PIPELINE, Run(dag_id="d", run_id=f"{kind} {start}"), kind, [{stream: wanted}]
        )
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    return attempt


def loaded(ledger: Ledger, start: int = 0, end: int = 10) -> tuple[int, int]:
    """Start a stream with one advanced batch."""
    (stream,) = start_streams(ledger, 1, start=start)
    batch_id = published(ledger, {stream: (start, end)})
    flow.advance(ledger, PIPELINE, RUN)
    return stream, batch_id
