"""One batch in its output topic: what its version means, and errors that name it."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from confluent_kafka import KafkaException

from tideline.domain.receipts import Found, Receipt, committed_by, found
from tideline.outside.kafka_errors import Where
from tideline.outside.kafka_transaction import Place, Version, committed


class Batch:
    """One batch in its topic."""

    def __init__(self, place: Place, where: Where) -> None:
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

    def receipt(self, version: Version | None) -> Receipt | None:
        """Return the receipt that a version is; None if it is none."""
        fence = committed_by(number(version))
        if version is None or fence is None:
            return None
        try:
            return Receipt(fence=fence, attempt=UUID(version.metadata))
        except ValueError:
            raise self.where.foreign(self.place.name, version.number, version.metadata) from None


def number(version: Version | None) -> int | None:
    """Return the number of a version; None if there is none."""
    return version.number if version else None
