"""An output topic: one transaction for each batch, fenced, and committed together with its receipt. Needs no JVM.

Law: a reader of committed records sees the rows of each batch once, or not at all, whichever attempt froze, died or was thawed.
The version of a batch is the offset that the group `tideline.<pipeline>.<identity of the batch>` has committed for partition 0 of
the topic, in the same transaction as the rows. The group's name is the transactional id too. A producer that begins ends every earlier one of the
batch, reads the version, and only then writes: so between its look and its commit no other producer can commit. Where the brokers may have
forgotten the version, the topic itself is searched for the rows before the batch is fenced.
"""

import re
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaException, TopicCollection

from tideline.declaration.brokers import Brokers
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import IDENTITY, BatchIdentity, Receipt, data, marker, needs_marker
from tideline.errors import TidelineError
from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.kafka.settings import client_settings
from tideline.sinks import evidence
from tideline.sinks.evidence import Evidence, Intended
from tideline.sinks.kafka.kafka_batch import FENCED, Batch, number
from tideline.sinks.kafka.kafka_errors import Where
from tideline.sinks.kafka.kafka_limits import MAX_BYTES, TopicLimits, limits_of
from tideline.sinks.kafka.kafka_search import ATTEMPT, log_of
from tideline.sinks.kafka.kafka_transaction import (
    Message,
    Transaction,
    TransactionTarget,
    Version,
    committed,
    has_been_ended,
)
from tideline.sinks.kind import section
from tideline.sinks.outside import LEAST_DAYS

__all__ = ["ATTEMPT", "ORIGIN", "KafkaTopic", "Message", "TopicLimits", "sink"]
ORIGIN = "tideline-origin"
"""The header that says which source record an output record came from: topic id, partition, offset and, if there is one, item."""


def sink(
    pipeline: Pipeline, known: Evidence = evidence.nothing, intended: Intended = evidence.none_intended
) -> "KafkaTopic":
    """Return the output topic of a pipeline that declares one. Connects to nothing.

    Args:
        pipeline: The pipeline.
        known: Says whether the topic must exist.
        intended: Says which attempts may have committed a batch.

    Raises:
        TypeError: The pipeline has another kind of sink.
    """
    declared = section(pipeline, KafkaSink)
    return KafkaTopic(
        pipeline.name,
        declared.brokers(pipeline.source),
        declared.topic,
        seconds=declared.transaction_seconds,
        known=known,
        intended=intended,
    )


class KafkaTopic:
    """The output topic of one pipeline.

    Args:
        pipeline: Its name, a part of the names of transactional ids and groups.
        brokers: The brokers of the topic.
        topic: Its name.
        seconds: The time after which the brokers abort a transaction.
        purpose: Ends the names, where a pipeline writes more than one transaction for a batch.
        known: Says whether the topic must exist.
        intended: Says which attempts may have committed a batch. By default the topic is never searched.

    Raises:
        FatalError: The declaration, a password or a permission is wrong. Every method may raise it too.
        RetryableError: The brokers did not answer. Only methods raise it.
        NeedsOperatorError: The topic must exist and does not. Only methods raise it.
    """

    def __init__(
        self,
        pipeline: str,
        brokers: Brokers,
        topic: str,
        *,
        seconds: int,
        purpose: str = "",
        known: Evidence = evidence.nothing,
        intended: Intended = evidence.none_intended,
    ) -> None:
        self._pipeline = pipeline
        self._brokers = brokers
        self._topic = topic
        self._seconds = seconds
        self._purpose = purpose
        self._known = known
        self._intended = intended

    def name_of(self, batch: BatchIdentity) -> str:
        """Return the transactional id of a batch, which is the group of its receipt too."""
        return f"tideline.{self._pipeline}.{batch.identity}{self._purpose}"

    def identities(self) -> list[UUID]:
        """Return the identities of all batches of the pipeline that have a group: committed, or only fenced.

        Only groups that the brokers have not forgotten, and that the user may see.
        """
        name = re.compile(rf"tideline\.{re.escape(self._pipeline)}\.({IDENTITY}){re.escape(self._purpose)}")
        groups = self._connection(self._where()).group_names()
        return [UUID(found[1]) for group in groups if (found := name.fullmatch(group))]

    @property
    def remembers_days(self) -> float:
        """How long a receipt is sure to be found: a part of what the brokers' settings say."""
        return self.limits().sure_days

    def limits(self) -> TopicLimits:
        """Return what limits the records of the topic, and how long the brokers remember receipts.

        Raises:
            FatalError: There is no such topic.
        """
        return limits_of(self._connection(self._where()), self._topic)

    def check_memory(self, limits: TopicLimits) -> None:
        """Make sure that the brokers remember receipts for long enough, as far as the user may read how long they do.

        Raises:
            FatalError: They do not.
        """
        if limits.memory_days is not None and limits.memory_days < LEAST_DAYS:
            raise self._where().forgetful(limits.memory_days, LEAST_DAYS)

    def position(self) -> dict[str, Any]:
        """Return where the topic ends. An attempt that commits afterwards has all of its records behind it."""
        return log_of(self._connection(self._where()), self._topic).position()

    def fence(self, identity: BatchIdentity, fence: int) -> Receipt | None:
        """Make sure that no attempt below `fence` can commit any more. Return the receipt of the one that has committed, if any.

        A receipt that the brokers have forgotten is found by the rows in the topic, and stored once more.

        Raises:
            NeedsOperatorError: Another program has used the group.
            UncertainError: The receipt may be forgotten, and the topic does not tell whether there was one.
            RetryableError: The topic cannot be searched now.
        """
        batch = self._batch(identity)
        with batch.explaining(), Transaction(batch.place) as transaction:
            version = committed(batch.place)
            receipt = batch.receipt(version)
            if receipt is None and (receipt := self._forgotten(batch, identity, version)):
                transaction.commit(Version(number=data(receipt.fence), metadata=str(receipt.attempt)))
            elif needs_marker(number(version), fence):
                transaction.commit(Version(number=marker(fence), metadata=FENCED))
            return receipt

    def _forgotten(self, batch: Batch, identity: BatchIdentity, version: Version | None) -> Receipt | None:
        """Return the receipt of an attempt whose rows are in the topic. Call it within a fence: no attempt may be able to commit any more."""
        # A marker that an attempt has found or left when it began shows that its own commit, which replaces it, did not happen.
        sought = [one for one in self._intended(identity) if one.n_rows and (number(version) or 0) < marker(one.fence)]
        return batch.found_in_topic(self._connection(batch.where), sought) if sought else None

    def look(self, identity: BatchIdentity) -> Receipt | None:
        """Return the receipt of a batch. Fences nothing, so a commit in flight may still happen after None."""
        batch = self._batch(identity)
        with batch.explaining():
            return batch.receipt(committed(batch.place))

    def commit(
        self,
        identity: BatchIdentity,
        own: Receipt,
        messages: Iterable[Message],
        expected: int | None,
        *,
        max_bytes: int = MAX_BYTES,
    ) -> Receipt:
        """Commit all messages of a batch in one transaction, in order, and return its receipt.

        Args:
            identity: The batch.
            own: The fence and the identity of the attempt.
            messages: The rows. They are read once, while they are sent.
            expected: How many they must be. None if any number is right.
            max_bytes: The largest batch of records that the topic takes.

        Raises:
            SupersededError: Another attempt has committed the batch, or a newer one has fenced it.
            RetryableError: Nothing is known to be committed. The next attempt finds out, and never commits twice.
        """
        batch = self._batch(identity, max_bytes)
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

    def _batch(self, identity: BatchIdentity, max_bytes: int = MAX_BYTES) -> Batch:
        where = self._where(f" {identity}")
        self._connection(where)
        place = TransactionTarget(
            settings=client_settings(self._brokers),
            topic=self._topic,
            name=self.name_of(identity),
            seconds=self._seconds,
            max_bytes=max_bytes,
        )
        return Batch(place, where)

    def _where(self, batch: str = "") -> Where:
        servers = self._brokers.connection()["bootstrap_servers"]
        return Where(f"{self._pipeline}{batch}", self._topic, servers, self._brokers.secrets())

    def _connection(self, where: Where) -> Connection:
        """Return a connection to the brokers, which have the topic. It reports a wrong address or login; a producer only waits."""
        connection = Connection(self._brokers)
        asked = connection.admin.describe_topics(TopicCollection([self._topic]), request_timeout=TIMEOUT_S)
        if not connection.existing(asked):
            raise where.missing(self._known())
        return connection
