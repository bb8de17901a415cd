"""Asks the brokers about a pipeline's topics: topic id, log start, last stable offset, offset at a time.

Joins no consumer group and decides nothing. Of records it reads only offset, timestamp and leader epoch. `tideline.flow`
calls it when it plans and again before it publishes. After that it commits the heads to a consumer group, for tools that
show lag.
"""

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from uuid import UUID

from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigEntry, ConfigResource, TopicDescription

from tideline.declaration import Source
from tideline.domain.facts import FoundOffset, PartitionFacts, Place, RecordFacts, TopicFacts
from tideline.errors import FatalError, RetryableError
from tideline.kafka import offsets
from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.kafka.passing import Bounded, PassingError, patient
from tideline.kafka.records import UNCOMMITTED, records_from
from tideline.kafka.settings import client_settings

log = logging.getLogger(__name__)
_FOREVER_MS = 1_000 * 365 * 86_400_000
"""A longer retention is none: some set the largest number that Kafka takes, and no calendar goes back as far."""


class Broker(Bounded):
    """The brokers of one source, queried at the isolation level at which the source is read.

    Args:
        source: The addresses, the connection settings and the topics.

    Raises:
        FatalError: The declaration, a password or a permission is wrong. Every method may raise it too.
        RetryableError: The brokers did not answer within about 10 seconds, or for as long gave an answer that should pass. Only methods raise it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._connection = Connection(source.brokers)
        self._admin = self._connection.admin

    @patient
    def cluster_id(self) -> str:
        """Return the id of the cluster that answers. In another cluster the same offsets are other records."""
        return self._connection.cluster_id()

    @patient
    def topic_facts(self) -> list[TopicFacts]:
        """Return the declared topics that exist, in the order of the declaration, each with offsets that belong to its topic id.

        With a pattern, return the topics that fit it now, sorted by name. There may be none yet.

        `missing` returns an error for each of the other topics.

        Raises:
            RetryableError: A partition has no leader, or topics are deleted and created while this method runs.
        """
        cluster_id = self.cluster_id()
        names = self._names()
        for _ in range(2):
            described = self._described(names)
            bounds = self._bounds(p for topic in described.values() for p in led_partitions(topic))
            settings = self._settings(described)
            # Offsets are listed by topic name. They belong to the topic id only if it is the same before and after the listing.
            ids = _ids(described)
            if ids == _ids(self._described(names)):
                return [
                    TopicFacts(
                        cluster_id=cluster_id,
                        topic=name,
                        topic_id=topic_id,
                        compacted="compact" in _policy(settings.get(name, {})),
                        retention_ms=_retention_ms(settings.get(name, {})),
                        partitions=_partition_facts(name, bounds),
                    )
                    for name, topic_id in ids.items()
                ]
        raise RetryableError(
            f"brokers {self._connection.servers}: a topic of {', '.join(names)} is being deleted and created again",
            next_step="wait until that has ended; the task tries again by itself",
            entry="kafka-does-not-answer",
        )

    @patient
    def missing(self, found: Iterable[TopicFacts], known: Iterable[str] = ()) -> dict[str, FatalError]:
        """Return, by topic name, an error for each declared topic that the brokers do not have.

        With a pattern, only topics that the ledger knows can be missing: the pattern alone requires none.

        Args:
            found: The result of `topic_facts`. The brokers are not asked about these topics again.
            known: Topics that the ledger knows. Those that the declaration no longer names are skipped.
        """
        there = {topic.topic for topic in found}
        declared = [*(self._source.topics or ()), *filter(self._source.names, known)]
        names = [name for name in dict.fromkeys(declared) if name not in there]
        described = self._described(names)
        gone = [name for name in names if name not in described]
        return self._connection.missing(gone) if gone else {}

    @patient
    def offsets_at(self, times: Mapping[Place, datetime], *, committed: bool = True) -> dict[Place, FoundOffset]:
        """Return, by topic and partition, the first offset whose record has a timestamp of its time or later, at most the last stable offset.

        Where there is no such record, return the last stable offset. Producers set the timestamps: a record that is dated
        in the future is found for every time before that date. Times have a zone; Kafka counts whole milliseconds.
        All partitions are asked about at once. With `committed=False`, the high watermark takes the place of the last stable offset.
        """
        if not times:
            return {}
        # An error of the listing does not distinguish a missing topic from a missing leader. This check does.
        for topic in self._connection.results(self._describe(sorted({topic for topic, _ in times}))).values():
            led_partitions(topic)
        return offsets.at(self._connection, times, committed=committed)

    @patient
    def records_from(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = True
    ) -> dict[Place, list[RecordFacts]]:
        """Return the first `count` records at or after each offset; fewer where the log ends. Slower than the other methods.

        With `committed=False`, those of open and of aborted transactions are among them.
        """
        settings = client_settings(self._source.brokers) | ({} if committed else UNCOMMITTED)
        return records_from(settings, starts, count, seconds=TIMEOUT_S)

    @patient
    def commit_heads(self, group: str, heads: Mapping[tuple[str, int], int]) -> None:
        """Commit `heads`, by topic and partition, to a consumer group for tools that show lag; they may be lower than before.

        No consumer joins the group, and Tideline never reads it.

        Raises:
            FatalError: A consumer is a member of the group, or a topic does not exist. The other offsets are committed.
        """
        if not heads:
            return
        committing = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(heads.items())]
        asked = [ConsumerGroupTopicPartitions(group, committing)]
        futures = self._admin.alter_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)
        committed = self._connection.results(futures)[group].topic_partitions
        self._connection.check_commits(group, committed)

    def _names(self) -> list[str]:
        if self._source.topics is not None:
            return list(self._source.topics)
        names = sorted(filter(self._source.names, self._connection.topic_names()))
        if not names:
            log.warning(
                "brokers %s: no topic fits source.topic_pattern %s yet; there is nothing to load",
                self._connection.servers,
                self._source.topic_pattern,
            )
        return names

    def _described(self, topics: list[str]) -> dict[str, TopicDescription]:
        """Return those of the topics that exist, in the same order."""
        found = self._connection.existing(self._describe(topics)) if topics else {}
        return {name: found[name] for name in topics if name in found}

    def _describe(self, topics: list[str]) -> dict[str, Future[TopicDescription]]:
        futures: dict[str, Future[TopicDescription]]
        futures = self._admin.describe_topics(TopicCollection(topics), request_timeout=TIMEOUT_S)
        return futures

    def _bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionFacts]:
        return offsets.bounds(self._connection, partitions)

    def _settings(self, topics: Iterable[str]) -> dict[str, dict[str, ConfigEntry]]:
        """Return settings by topic, without topics whose settings the user may not read: reading records needs no such permission."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        futures = self._admin.describe_configs(resources, request_timeout=TIMEOUT_S) if resources else {}
        found = self._connection.existing(futures, readable_only=True)
        return {resource.name: entries for resource, entries in found.items()}


def _ids(described: Mapping[str, TopicDescription]) -> dict[str, UUID]:
    return {name: topic_uuid(topic) for name, topic in described.items()}


def _policy(settings: Mapping[str, ConfigEntry]) -> str:
    """Return the cleanup policy, or an empty text if the settings could not be read: then gaps are refused, which is safe."""
    return str(settings["cleanup.policy"].value) if settings else ""


def _retention_ms(settings: Mapping[str, ConfigEntry]) -> int | None:
    milliseconds = int(settings["retention.ms"].value) if "delete" in _policy(settings) else -1
    return milliseconds if 0 <= milliseconds <= _FOREVER_MS else None


def _partition_facts(topic: str, bounds: Mapping[TopicPartition, PartitionFacts]) -> tuple[PartitionFacts, ...]:
    mine = [facts for place, facts in bounds.items() if place.topic == topic]
    return tuple(sorted(mine, key=lambda facts: facts.partition))


def topic_uuid(topic: TopicDescription) -> UUID:
    """Return the id of this topic incarnation.

    Raises:
        FatalError: The broker gives topics no id. Then a topic that was created again could not be recognised.
    """
    high, low = (topic.topic_id.get_most_significant_bits(), topic.topic_id.get_least_significant_bits())
    if high == low == 0:
        raise FatalError(
            f"topic {topic.name}: expected a topic id, found none",
            next_step="use brokers that give topics an id: Kafka 2.8 or newer",
            entry="topic-without-id",
        )
    return UUID(int=(high % 2**64) << 64 | (low % 2**64))


def led_partitions(topic: TopicDescription) -> list[TopicPartition]:
    """Return the partitions of the topic, each of which has a leader.

    Raises:
        PassingError: A partition has no leader. A query of it would only end in a timeout without that cause.
    """
    leaderless = [p.id for p in topic.partitions if p.leader is None or p.leader.id < 0]
    if leaderless:
        raise PassingError(
            f"topic {topic.name}: expected a leader for every partition, found none for {leaderless}",
            next_step="bring the brokers that hold them back; the task tries again by itself",
            entry="kafka-does-not-answer",
        )
    return [TopicPartition(topic.name, p.id) for p in topic.partitions]
