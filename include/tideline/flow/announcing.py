"""announce: choose the published batches that a task announces as asset events. Each batch is announced once, however its run ended.

Airflow commits the events of a task together with its success, in one transaction of its own database. The ledger cannot take part in that
transaction. So a batch leaves the outbox only when its event was seen. If a task took a batch and ended without its event, another task takes it.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tideline.ledger import publications
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer, PublishedBatch


class AssetEvents(Protocol):
    """What Airflow knows about the events of one pipeline's asset."""

    def may_succeed(self, announcer: Announcer) -> bool:
        """Return whether that task is running: it may still succeed and commit the events of the batches that it has taken."""

    def announced(self, since: datetime) -> AbstractSet[UUID]:
        """Return the attempts whose batches have an event, at least of the batches that were published at `since` or later."""


def announce(ledger: Ledger, pipeline: str, announcer: Announcer, events: AssetEvents) -> list[PublishedBatch]:
    """Take the batches that this task must announce, in order of publication. Leave those that another running task may still announce.

    The task must announce all of them and then succeed. If it does not, the next task that calls this takes the same batches.

    Raises:
        RetryableError: The ledger did not answer.
    """
    waiting = publications.waiting(ledger, pipeline)
    if not waiting:
        return []
    # Check for running tasks before reading the events: a task that has ended by now has committed all of its events. In the other order a task
    # could succeed in between, and its batches would be announced twice.
    others = {batch.announcer for batch in waiting} - {None, announcer}
    running = {other for other in others if other is not None and events.may_succeed(other)}
    announced = events.announced(min(batch.published_at for batch in waiting))
    seen = [batch for batch in waiting if batch.attempt in announced]
    publications.confirm(ledger, seen)
    free = [batch for batch in waiting if batch.attempt not in announced and batch.announcer not in running]
    return publications.take(ledger, free, announcer)
