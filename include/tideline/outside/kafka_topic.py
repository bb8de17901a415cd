"""An output topic: one transaction for each batch, fenced, and committed together with its receipt. Needs no JVM.

Law: a reader of committed records sees the rows of each batch once, or not at all, whichever attempt froze, died or was thawed.
The version of a batch is the offset that the group `tideline.<pipeline>.<batch>` has committed for partition 0 of the topic, in the same
transaction as the rows. The group's name is the transactional id too. A producer that begins ends every earlier one of the
batch, reads the version, and only then writes: so between its look and its commit no other producer can commit.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigEntry, ConfigResource

from tideline.declaration.brokers import Brokers
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import Receipt, data, marker, needs_marker
from tideline.errors import TidelineError
from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.kafka.settings import client_settings
from tideline.outside import evidence
from tideline.outside.evidence import Evidence
from tideline.outside.kafka_batch import Batch, number
from tideline.outside.kafka_errors import Where
from tideline.outside.kafka_transaction import Message, Place, Transaction, Version, committed, has_been_ended

__all__ = ["ORIGIN", "KafkaTopic", "Limits", "Message", "sink"]
ORIGIN = "tideline-origin"
"""The header that says which source record an output record came from: topic id, partition, offset and, if there is one, item."""
_FENCED = "fence"
_MAX_BYTES = 1_000_000


def sink(pipeline: Pipeline, known: Evidence = evidence.nothing) -> "KafkaTopic":
    """Return the output topic of a pipeline that declares one. `known` says whether it must exist. Connects to nothing.

    Raises:
        TypeError: The pipeline has another kind of sink.
    """
    declared = pipeline.sink
    if not isinstance(declared, KafkaSink):
        raise TypeError(f"{pipeline.name}: expected a sink of kind kafka, found {declared.kind}")
    return KafkaTopic(
        pipeline.name,
        declared.brokers(pipeline.source),
        declared.topic,
        seconds=declared.transaction_seconds,
        known=known,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What limits the records of a topic."""

    cluster_id: str
    max_bytes: int
    """The largest batch of records that it takes."""
    compacted: bool
    """Whether each record needs a key."""


class KafkaTopic:
    """The output topic of one pipeline.

    Args:
        pipeline: Its name, a part of the names of transactional ids and groups.
        brokers: The brokers of the topic.
        topic: Its name.
        seconds: The time after which the brokers abort a transaction.
        purpose: Ends the names, where a pipeline writes more than one transaction for a batch.
        known: Says whether the topic must exist.

    Raises:
        FatalError: The declaration, a password or a permission is wrong. Every method may raise it too.
        RetryableError: The brokers did not answer. Only methods raise it.
        NeedsOperatorError: The topic must exist and does not. Only methods raise it.
    """

    remembers_days = 5.0
    """Brokers forget groups and transactional ids after about seven days."""

    def __init__(
        self,
        pipeline: str,
        brokers: Brokers,
        topic: str,
        *,
        seconds: int,
        purpose: str = "",
        known: Evidence = evidence.nothing,
    ) -> None:
        self._pipeline = pipeline
        self._brokers = brokers
        self._topic = topic
        self._seconds = seconds
        self._purpose = purpose
        self._known = known

    def name_of(self, batch_id: int) -> str:
        """Return the transactional id of a batch, which is the group of its receipt too."""
        return f"tideline.{self._pipeline}.{batch_id}{self._purpose}"

    def limits(self) -> Limits:
        """Return what limits the records of the topic.

        Raises:
            FatalError: There is no such topic.
        """
        connection = self._connection(
            Where(self._pipeline, self._topic, self._brokers.connection()["bootstrap_servers"], [])
        )
        asked = [ConfigResource(ConfigResource.Type.TOPIC, self._topic)]
        futures = connection.admin.describe_configs(asked, request_timeout=TIMEOUT_S)
        # Without DescribeConfigs, the brokers' defaults are assumed: a larger record fails the transaction, and nothing is lost.
        found = connection.existing(futures, readable_only=True)
        settings: dict[str, ConfigEntry] = next(iter(found.values()), {})
        cluster = {"cluster": connection.admin.describe_cluster(request_timeout=TIMEOUT_S)}
        return Limits(
            cluster_id=str(connection.results(cluster)["cluster"].cluster_id),
            max_bytes=int(settings["max.message.bytes"].value) if settings else _MAX_BYTES,
            compacted="compact" in str(settings["cleanup.policy"].value) if settings else False,
        )

    def fence(self, batch_id: int, fence: int) -> Receipt | None:
        """Make sure that no attempt below `fence` can commit any more. Return the receipt of the one that has committed, if any.

        Raises:
            NeedsOperatorError: Another program has used the group.
        """
        batch = self._batch(batch_id)
        with batch.explaining(), Transaction(batch.place) as transaction:
            version = committed(batch.place)
            receipt = batch.receipt(version)
            if needs_marker(number(version), fence):
                transaction.commit(Version(number=marker(fence), metadata=_FENCED))
            return receipt

    def look(self, batch_id: int) -> Receipt | None:
        """Return the receipt of a batch. Fences nothing, so a commit in flight may still happen after None."""
        batch = self._batch(batch_id)
        with batch.explaining():
            return batch.receipt(committed(batch.place))

    def commit(
        self,
        batch_id: int,
        own: Receipt,
        messages: Iterable[Message],
        expected: int | None,
        *,
        max_bytes: int = _MAX_BYTES,
    ) -> Receipt:
        """Commit all messages of a batch in one transaction, in order, and return its receipt.

        Args:
            batch_id: The batch.
            own: The fence and the identity of the attempt.
            messages: The rows. They are read once, while they are sent.
            expected: How many they must be. None if any number is right.
            max_bytes: The largest batch of records that the topic takes.

        Raises:
            SupersededError: Another attempt has committed the batch, or a newer one has fenced it.
            RetryableError: Nothing is known to be committed. The next attempt finds out, and never commits twice.
        """
        batch = self._batch(batch_id, max_bytes)
        begun = time.monotonic()
        with batch.explaining():
            try:
                with Transaction(batch.place) as transaction:
                    if batch.is_committed_by(own):
                        return own
                    sent = transaction.send(messages)
                    if expected is not None and sent != expected:
                        raise batch.where.incomplete(expected, sent)
                    transaction.commit(Version(number=data(own.fence), metadata=str(own.attempt)))
            except KafkaException as error:
                # The transaction may have been committed and only the answer lost.
                if not batch.turns_out_to_be_committed_by(own, error):
                    raise self._failure(batch, error, time.monotonic() - begun) from error
        return own

    def _failure(self, batch: Batch, error: KafkaException, seconds: float) -> TidelineError:
        if not has_been_ended(error):
            return batch.where.explained(error)
        return batch.where.timed_out(self._seconds) if seconds > self._seconds else batch.where.ended()

    def _batch(self, batch_id: int, max_bytes: int = _MAX_BYTES) -> Batch:
        servers = self._brokers.connection()["bootstrap_servers"]
        where = Where(f"{self._pipeline} batch {batch_id}", self._topic, servers, self._brokers.secrets())
        self._connection(where)
        place = Place(
            settings=client_settings(self._brokers),
            topic=self._topic,
            name=self.name_of(batch_id),
            seconds=self._seconds,
            max_bytes=max_bytes,
        )
        return Batch(place, where)

    def _connection(self, where: Where) -> Connection:
        """Return a connection to the brokers, which have the topic. It reports a wrong address or login; a producer only waits."""
        connection = Connection(self._brokers)
        asked = connection.admin.describe_topics(TopicCollection([self._topic]), request_timeout=TIMEOUT_S)
        if not connection.existing(asked):
            raise where.missing(self._known())
        return connection
