"""One batch in its output topic: what its version means, and errors that name it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from confluent_kafka import KafkaException

from tideline.domain.receipts import Found, Receipt, committed_by, found
from tideline.kafka.connection import Connection
from tideline.ledger.intents import Intent
from tideline.sinks.kafka.kafka_errors import Where
from tideline.sinks.kafka.kafka_limits import limits_of
from tideline.sinks.kafka.kafka_search import HeldUpError, log_of, searched
from tideline.sinks.kafka.kafka_transaction import TransactionTarget, Version, committed

_DAY = 86_400
FENCED = "fence"
"""The metadata of a marker."""


class Batch:
    """One batch in its topic."""

    def __init__(self, place: TransactionTarget, where: Where) -> None:
        self.place = place
        self.where = where

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise the clients' errors as messages for an operator."""
        try:
            yield
        except KafkaException as error:
            raise self.where.explained(error) from error

    def is_committed_by(self, own: Receipt) -> bool:
        """Return whether this attempt has committed the batch.

        Raises:
            SupersededError: It can never commit it.
        """
        version = committed(self.place)
        match found(number(version), self.receipt(version), own=own):
            case Found.OWN:
                return True
            case Found.FREE:
                return False
            case Found.SUPERSEDED:
                raise self.where.superseded(own.fence, f"version {number(version)}")

    def turns_out_to_be_committed_by(self, own: Receipt, error: KafkaException) -> bool:
        """Return whether this attempt has committed the batch, although its transaction ended with an error.

        Raises:
            RetryableError: The brokers do not answer.
        """
        try:
            return self.is_committed_by(own)
        except KafkaException:
            raise self.where.unknown(error) from error

    def found_in_topic(self, connection: Connection, sought: Sequence[Intent]) -> Receipt | None:
        """Return the receipt of the attempt whose rows are in the topic; None if none of these has any there.

        Raises:
            RetryableError: A transaction of another producer hides a part of the topic.
            UncertainError: Rows may have been there, and the brokers may have forgotten the receipt.
        """
        topic = self.place.topic
        try:
            found = searched(self.place.settings, topic, log_of(connection, topic), sought)
        except HeldUpError as error:
            raise self.where.held_up(str(error)) from error
        if found.receipt is None:
            limits = limits_of(connection, topic)
            gone = [*found.missing, *(["the topic is compacted"] if limits.compacted else [])]
            days = max(one.age_seconds for one in sought) / _DAY
            if gone and days > limits.sure_days:
                raise self.where.uncertain(days, limits.memory_days, gone)
        return found.receipt

    def receipt(self, version: Version | None) -> Receipt | None:
        """Return the receipt that a version is; None if it is none."""
        fence = committed_by(number(version))
        if version is None or (fence is None and version.metadata == FENCED):
            return None
        try:
            if fence is None:
                raise ValueError(version.metadata)  # noqa: TRY301 - as UUID does
            return Receipt(fence=fence, attempt=UUID(version.metadata))
        except ValueError:
            raise self.where.foreign(self.place.name, version.number, version.metadata) from None


def number(version: Version | None) -> int | None:
    """Return the number of a version; None if there is none."""
    return version.number if version else None
