"""Identities of batches for tests of outside sinks that need no ledger."""

from uuid import UUID

from tideline.domain.receipts import BatchIdentity


def batch(number: int) -> BatchIdentity:
    """Return the identity of the batch with this number: always the same one."""
    return BatchIdentity(UUID(int=number), number)
