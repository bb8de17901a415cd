"""Helpers for streams that stop, logs that are truncated, and an operator's decisions about them."""

from typing import Unpack

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from faults.memory import Cluster, MemoryBroker
from faults.memory.memory_broker import Log
from ledger_queries import query
from planners import Limits, decide, declared, run
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import NewRecords
from tideline.ledger.connection import Ledger

LOST = "the source has them no longer"
REPLACED = "offsets [{}, {}) may hold other records than those that were planned or read: the log was cut at {}"


def delete_before(admin: AdminClient, topic: str, offset: int, partition: int = 0) -> None:
    admin.delete_records([TopicPartition(topic, partition, offset)])[TopicPartition(topic, partition)].result()


def accept(url: str, pipeline: Pipeline, topic: str, partition: int | None = None) -> list[str]:
    return decide(url, pipeline, flow.accept_loss, topic, partition, reason=LOST)


def adopt(url: str, pipeline: Pipeline, topic: str) -> list[str]:
    return decide(url, pipeline, flow.adopt_topic, topic, reason=LOST)


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
        return flow.accept_loss(self.ledger, self.broker, self.pipeline, "ads", 0, reason=LOST)


def replace_from(log: Log, offset: int, *, end: int) -> None:
    """Truncate the log at the offset, and let it grow to `end` again before the next run."""
    log.cut(offset)
    log.append(end - log.end)
