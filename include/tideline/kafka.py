"""What the brokers say about a pipeline's topics: identity, oldest offset, end, offset at a time.

Owns the questions and the wording of what goes wrong with them. Never reads a record, commits an offset or decides
anything. `tideline.flow` calls it when it plans and again before it publishes.
"""

import contextlib
import difflib
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, TopicDescription

from tideline.declaration import Source
from tideline.domain.facts import PartitionFacts, TopicFacts
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.kafka_settings import client_settings

_TIMEOUT_S = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORBIDDEN = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
_UNAUTHENTICATED = KafkaError._AUTHENTICATION  # noqa: SLF001 - public: the names of librdkafka's own errors begin so
_UNTRUSTED = KafkaError._SSL  # noqa: SLF001 - as above


class Broker:
    """The brokers of one source, asked at the isolation level at which the source is read.

    Args:
        source: Where they are, how to connect, and which topics matter.

    Raises:
        FatalError: Of every method as well: the declaration, a password or a permission is wrong.
        RetryableError: Of every method: the brokers did not answer within about 10 seconds.
    """

    def __init__(self, source: Source) -> None:
        settings = client_settings(source)
        self._topics = list(source.topics)
        self._servers = settings["bootstrap.servers"]
        self._connection_errors: dict[int, KafkaError] = {}
        # Its own log is off: it repeats each failed connection many times a second, and what matters arrives here.
        own = {"log_level": 0, "error_cb": self._remember}
        try:
            self._admin = AdminClient({**settings, **own})
        except KafkaException as error:  # such as a CA file that is not there
            raise FatalError(
                f"brokers {self._servers}: the connection settings do not work: {error.args[0].str()}",
                next_step="correct source.security in the declaration, or the file that it names",
            ) from error

    def topic_facts(self) -> list[TopicFacts]:
        """All declared topics, in the order of the declaration, each with offsets that belong to its topic id.

        Raises:
            FatalError: A topic does not exist.
            RetryableError: A partition has no leader, or topics are being deleted and created while they are asked.
        """
        cluster = self._results({"": self._admin.describe_cluster(request_timeout=_TIMEOUT_S)})[""]
        for _ in range(2):
            described = self._described(self._topics)
            ids = {name: topic_uuid(topic) for name, topic in described.items()}
            bounds = self._bounds(p for topic in described.values() for p in led_partitions(topic))
            compacted = self._compacted()
            # Offsets are listed by name: only an id that is the same before and after says whose offsets they are.
            if ids == {name: topic_uuid(topic) for name, topic in self._described(self._topics).items()}:
                return [
                    TopicFacts(
                        cluster_id=cluster.cluster_id,
                        topic=name,
                        topic_id=ids[name],
                        compacted=compacted[name],
                        partitions=tuple(
                            PartitionFacts(partition=p.partition, log_start=log_start, end=end)
                            for p, (log_start, end) in sorted(bounds.items(), key=lambda item: item[0].partition)
                            if p.topic == name
                        ),
                    )
                    for name in self._topics
                ]
        raise RetryableError(
            f"brokers {self._servers}: a topic of {', '.join(self._topics)} is being deleted and created again",
            next_step="wait until that has ended; the task tries again by itself",
        )

    def offsets_at(self, topic: str, partitions: Iterable[int], when: datetime) -> dict[int, int]:
        """By partition, the first offset whose record's timestamp is `when` or later, at most the last stable offset.

        Where there is no such record it is the last stable offset. `when` has a zone; Kafka counts whole milliseconds.
        """
        led_partitions(self._described([topic])[topic])  # a listing does not tell a missing topic from a missing leader
        asked = [TopicPartition(topic, partition) for partition in partitions]
        # The end first: asked afterwards, it could lie past a late enough record that arrived after the search.
        ends = self._listed(asked, OffsetSpec.latest())
        milliseconds = max(0, -((_EPOCH - when) // timedelta(milliseconds=1)))
        found = self._listed(asked, OffsetSpec.for_timestamp(milliseconds))
        return {p.partition: end if found[p] < 0 else min(found[p], end) for p, end in ends.items()}

    def _described(self, topics: list[str]) -> dict[str, TopicDescription]:
        futures = self._admin.describe_topics(TopicCollection(topics), request_timeout=_TIMEOUT_S)
        return self._results(futures)

    def _bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The log start and the last stable offset of each."""
        asked = list(partitions)
        # In this order the end is never below the start, whatever retention deletes in between.
        starts = self._listed(asked, OffsetSpec.earliest())
        ends = self._listed(asked, OffsetSpec.latest())
        return {p: (starts[p], ends[p]) for p in asked}

    def _listed(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        futures = self._admin.list_offsets(
            dict.fromkeys(partitions, spec),
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_S,
        )
        return {p: info.offset for p, info in self._results(futures).items()}

    def _compacted(self) -> dict[str, bool]:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in self._topics]
        futures = self._admin.describe_configs(resources, request_timeout=_TIMEOUT_S)
        # Who may read records may not always read settings: then the stricter answer is the safe one.
        readable = {resource.name: future for resource, future in futures.items() if not _forbidden(future)}
        settings = self._results(readable)
        return {name: name in settings and "compact" in settings[name]["cleanup.policy"].value for name in self._topics}

    def _results(self, futures: Mapping[Any, Future[Any]]) -> dict[Any, Any]:
        """What each future holds, once all are done. Keys are topics or partitions of them."""
        self._connection_errors.clear()
        while wait(futures.values(), timeout=0.1).not_done:
            self._admin.poll(0)
            # librdkafka would try a wrong password again and again until the time is up, and call it a timeout.
            if refusal := self._connection_errors.get(_UNAUTHENTICATED):
                raise self._refused(refusal)
        results = {}
        for key, future in futures.items():
            try:
                results[key] = future.result()
            except KafkaException as error:
                raise self._explained(error.args[0], getattr(key, "topic", key)) from error
        return results

    def _remember(self, error: KafkaError) -> None:
        self._connection_errors[error.code()] = error

    def _explained(self, error: KafkaError, topic: str) -> TidelineError:
        # A partition of a topic that was made just now may be unknown as well, for a moment.
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART and topic not in (names := self._known_topics()):
            similar = ", ".join(difflib.get_close_matches(topic, names)) or "none"
            return FatalError(
                f"brokers {self._servers}: topic {topic} does not exist; topics with a similar name: {similar}",
                next_step="correct source.topics in the declaration, or create the topic",
            )
        if error.code() in _FORBIDDEN:
            return FatalError(
                f"brokers {self._servers}, topic {topic}: not permitted: {error.str()}",
                next_step="grant the pipeline's user DESCRIBE and READ on the topic",
            )
        if refusal := self._connection_errors.get(_UNTRUSTED):
            return self._refused(refusal)
        causes = "; ".join(cause.str() for cause in (error, *self._connection_errors.values()))
        return RetryableError(
            f"brokers {self._servers} could not answer: {causes}",
            next_step="check that they run and can be reached from here; the task tries again by itself",
        )

    def _refused(self, error: KafkaError) -> FatalError:
        return FatalError(
            f"brokers {self._servers} refused the connection: {error.str()}",
            next_step="correct source.security in the declaration, or the variables and files that it names",
        )

    def _known_topics(self) -> list[str]:
        with contextlib.suppress(KafkaException):  # only for the wording: what went wrong before is the news
            return list(self._admin.list_topics(timeout=_TIMEOUT_S).topics)
        return []


def topic_uuid(topic: TopicDescription) -> UUID:
    """The id of this incarnation of the topic.

    Raises:
        FatalError: The broker has none: a topic that was created again would pass for the old one.
    """
    high, low = (topic.topic_id.get_most_significant_bits(), topic.topic_id.get_least_significant_bits())
    if high == low == 0:
        raise FatalError(
            f"topic {topic.name}: expected a topic id, found none",
            next_step="use brokers that give topics an id: Kafka 2.8 or newer",
        )
    return UUID(int=(high % 2**64) << 64 | (low % 2**64))


def led_partitions(topic: TopicDescription) -> list[TopicPartition]:
    """The partitions of the topic, all of which can be asked.

    Raises:
        RetryableError: One has no leader: asking it would end in a timeout that does not say so.
    """
    leaderless = [p.id for p in topic.partitions if p.leader is None or p.leader.id < 0]
    if leaderless:
        raise RetryableError(
            f"topic {topic.name}: expected a leader for every partition, found none for {leaderless}",
            next_step="bring the brokers that hold them back; the task tries again by itself",
        )
    return [TopicPartition(topic.name, p.id) for p in topic.partitions]


def _forbidden(future: Future[Any]) -> bool:
    error = future.exception()
    return isinstance(error, KafkaException) and error.args[0].code() in _FORBIDDEN
