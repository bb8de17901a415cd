"""Helpers for streams that stop, logs that are truncated, and an operator's decisions about them."""

from confluent_kafka import TopicPartition

from asking import query
from faults.memory import Cluster, MemoryBroker
from planners import decide, declared, run
from tideline import flow
from tideline.domain.requests import NewRecords

WHY = "the source has them no longer"
REPLACED = "offsets [{}, {}) may hold other records than those that were planned or read: the log was cut at {}"


def delete_before(admin, topic, offset, partition=0):
    admin.delete_records([TopicPartition(topic, partition, offset)])[TopicPartition(topic, partition)].result()


def accept(url, pipeline, topic, partition=None):
    return decide(url, pipeline, flow.accept_loss, topic, partition, reason=WHY)


def adopt(url, pipeline, topic):
    return decide(url, pipeline, flow.adopt_topic, topic, reason=WHY)


def stopped(ledger):
    return query(
        ledger, "SELECT topic, partition, stopped_because FROM tideline.stream WHERE state = 'stopped' ORDER BY 1, 2"
    )


def decided(ledger):
    """Return (action, topic and partition, reason) of the effects of people's decisions, in order."""
    return query(
        ledger,
        "SELECT action, topic || '/' || partition, detail ->> 'reason' FROM tideline.event LEFT JOIN tideline.stream USING (stream_id)"
        " WHERE actor = 'ada' AND action NOT IN ('move head', 'stop') ORDER BY event_id",
    )


class Cut:
    """A ledger and its pipeline, over logs that the test truncates."""

    def __init__(self, ledger):
        self.ledger, self.cluster, self.turn = ledger, Cluster(), 0
        self.logs = self.cluster.create("ads", 20, 5).logs
        self.declare()

    def declare(self, **limits):
        self.pipeline = declared("nowhere:9092", "ads", **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def end_at(self, *ends):
        """Truncate or extend the logs, from the first on, so that they end there."""
        for log, end in zip(self.logs, ends, strict=False):
            log.cut(end)
            log.append(end - log.end)

    def plan(self):
        self.turn += 1
        return flow.plan(self.ledger, self.broker, self.pipeline, run(f"cut {self.turn}"), NewRecords()).batch_ids

    def accept(self):
        return flow.accept_loss(self.ledger, self.broker, self.pipeline, "ads", 0, reason=WHY)


def replace_from(log, offset, *, end):
    """Truncate the log at the offset, and let it grow to `end` again before the next run."""
    log.cut(offset)
    log.append(end - log.end)
