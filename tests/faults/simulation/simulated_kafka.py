"""Apply the operations of a schedule to an in-memory Kafka."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol
from uuid import UUID

from faults import records
from faults.actions import TOPIC
from faults.memory import Cluster, Log, Topic
from faults.operations import (
    AddPartitions,
    Arrive,
    CreateAgain,
    CutLog,
    DeleteTopic,
    Operation,
    Overwrite,
    Retain,
    SwapCluster,
)

MOST_PARTITIONS = 4
_OTHER = "another cluster"


class Stream(Protocol):
    """One partition of one topic incarnation, as the checker or the ledger in memory has it."""

    @property
    def topic_id(self) -> UUID:
        """Return the id of the incarnation."""

    @property
    def partition(self) -> int:
        """Return the number of the partition."""


class SimulatedKafka:
    """One topic, with all that happens to it.

    Args:
        on_question: Called before each question that a broker answers.
        incarnation: The number of the topic's first incarnation.
        ends: The number of records in each partition at the beginning.
    """

    def __init__(self, on_question: Callable[[Any, str], object], incarnation: int, ends: Sequence[int]) -> None:
        self.cluster = Cluster(on_question)
        self.version = 0
        """A number that changes with each operation."""
        self.partitions = 0
        """Partitions of the topic, or of the deleted topic before its deletion."""
        self._incarnation = incarnation - 1
        self._elsewhere: tuple[str, dict[str, Topic]] = (_OTHER, {})
        """The cluster that does not answer at the declared address now."""
        self._reached: dict[tuple[UUID, int], int] = {}
        """The highest end that each log had before it was cut."""
        self.cuts: list[tuple[UUID, int, int]] = []
        """Topic id and partition of each log that was cut, and its end after the cut."""
        self._create(ends)

    @property
    def _topic(self) -> Topic | None:
        return self.cluster.topics.get(TOPIC)

    def _create(self, ends: Sequence[int]) -> None:
        self._incarnation += 1
        self.cluster.create(TOPIC, *ends, topic_id=UUID(int=self._incarnation))
        self.partitions = len(ends)
        self._stamp()

    def apply(self, operation: Operation) -> None:
        """Apply one operation. It has no effect if there is no topic."""
        self.version += 1
        if isinstance(operation, CreateAgain):
            self._create(operation.ends)
        elif isinstance(operation, SwapCluster):
            if not self.is_swapped:
                self._swap()
        elif self._topic is not None:
            self._apply(self._topic, operation)
        self._stamp()

    def _stamp(self) -> None:
        """Set the timestamps of the records to those that `records` defines."""
        if self._topic is not None and self._incarnation >= records.ODD_CLOCKS:
            incarnation = records.incarnation_of(self._topic.topic_id)
            for number, log in enumerate(self._topic.logs):
                log.timestamps[:] = [records.timestamp_ms(incarnation, number, offset) for offset in range(log.end)]

    @property
    def is_swapped(self) -> bool:
        """Return whether another cluster answers than at the beginning."""
        return self.cluster.cluster_id == _OTHER

    def _swap(self) -> None:
        before = self.cluster.cluster_id, self.cluster.topics
        self.cluster.cluster_id, self.cluster.topics = self._elsewhere
        self._elsewhere = before
        if self.is_swapped:
            self._create([7] * self.partitions)

    def _apply(self, topic: Topic, operation: Operation) -> None:
        match operation:
            case Arrive():
                self._log(topic, operation.partition).append(operation.count)
            case Retain():
                log = self._log(topic, operation.partition)
                log.delete_before(log.start + operation.count)
            case CutLog():
                self._cut(topic, operation.partition % len(topic.logs), operation.count)
            case Overwrite():
                number = operation.partition % len(topic.logs)
                self._cut(topic, number, operation.count)
                topic.logs[number].append(operation.count + operation.more)
            case AddPartitions():
                for _ in range(min(operation.count, MOST_PARTITIONS - len(topic.logs))):
                    topic.logs.append(Log(operation.records))
                self.partitions = len(topic.logs)
            case DeleteTopic():
                self.cluster.delete(TOPIC)

    def _cut(self, topic: Topic, number: int, count: int) -> None:
        log = topic.logs[number]
        place = topic.topic_id, number
        self._reached[place] = max(log.end, self._reached.get(place, 0))
        log.cut(log.end - count)
        self.cuts.append((*place, log.end))

    def swap_back(self) -> None:
        """Let the first cluster answer again. A process that has read from the other one must not publish after this:
        nothing would show the difference."""
        self.version += 1
        self._swap()

    def heal(self) -> None:
        """Create the topic if it is missing, and let each log grow beyond its highest end."""
        self.version += 1
        if self._topic is None:
            self._create([5] * self.partitions)
        topic = self.cluster.topics[TOPIC]
        for number, log in enumerate(topic.logs):
            reached = self._reached.get((topic.topic_id, number), 0)
            log.append(max(1, reached - log.end + 1))
        self._stamp()

    def end(self, stream: Stream) -> int:
        """Return the end of the readable part of a stream; 0 if its topic or partition does not exist any more."""
        topic = self._topic
        if topic is None or topic.topic_id != stream.topic_id or stream.partition >= len(topic.logs):
            return 0
        return topic.logs[stream.partition].stable_end

    def start(self, stream: Stream) -> int:
        """Return the log start of a stream; 0 if its topic or partition does not exist any more."""
        topic = self._topic
        if topic is None or topic.topic_id != stream.topic_id or stream.partition >= len(topic.logs):
            return 0
        return topic.logs[stream.partition].start

    @staticmethod
    def _log(topic: Topic, partition: int) -> Log:
        return topic.logs[partition % len(topic.logs)]
