"""Which published batches owe dead letters, and the rejects that become letters."""

from collections.abc import Generator
from typing import Any, NamedTuple
from uuid import UUID

from tideline.domain.receipts import BatchIdentity
from tideline.ledger.connection import Ledger
from tideline.statements import statement

_AT_ONCE = 1_000


class Owed(NamedTuple):
    """A published batch whose letters are not known to be sent."""

    batch_id: int
    identity: UUID
    attempt: UUID
    """That has published it. A ledger that was restored may know another one."""

    @property
    def batch(self) -> BatchIdentity:
        """Return what the batch is called outside of the ledger."""
        return BatchIdentity(self.identity, self.batch_id)


class Letter(NamedTuple):
    """One reject, with the content of its record as it came."""

    origin: str
    """Topic id, partition and offset of the record."""
    step: str
    reason: str
    key: bytes | None
    value: bytes | None
    headers: bytes | None
    """UTF-8 JSON, as the table keeps them."""


def owed(ledger: Ledger, pipeline: str) -> list[Owed]:
    """Return the published batches of a pipeline whose letters are not known to be sent, oldest first."""
    with ledger.transaction():
        return [Owed(*row) for row in ledger.rows("list_owed_letters", pipeline=pipeline)]


def of_batch(ledger: Ledger, batch_id: int) -> Generator[Letter]:
    """Yield the rejects that a batch has now, in the order of the source. Memory stays bounded.

    Raises:
        RetryableError: The ledger did not answer.
    """
    query = statement("tideline.ledger", "list_letters")
    with ledger.transaction(), ledger.connection.cursor(name="letters") as cursor:
        cursor.itersize = _AT_ONCE
        cursor.execute(query, {"batch_id": batch_id})
        for topic_id, partition, offset, step, reason, *content in cursor:
            yield Letter(f"{topic_id}/{partition}/{offset}", step, reason, *map(_bytes, content))


def settle(ledger: Ledger, batch_id: int) -> None:
    """Record that the letters of a batch are in the topic."""
    with ledger.transaction():
        ledger.run("settle_letters", batch_id=batch_id)


def _bytes(content: Any) -> bytes | None:
    return None if content is None else bytes(content)
