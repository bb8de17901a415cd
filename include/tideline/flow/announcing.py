"""announce: choose which published batches a task announces as asset events, so that each is announced once, whatever happened to its run.

Airflow keeps the events of a task together with its success, in one transaction of its own; the ledger cannot be part of that. So a batch leaves the
outbox only when its event was seen. One that was taken by a task that has ended without its event is taken again.
"""

from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tideline.ledger import publications
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer, Publication


class AssetEvents(Protocol):
    """What Airflow knows of the events of one pipeline's asset."""

    def may_succeed(self, announcer: Announcer) -> bool:
        """Whether that task may still succeed with the events that it has taken: it is running."""

    def announced(self, since: datetime) -> AbstractSet[UUID]:
        """The attempts whose batches have an event; at least of those that were published at `since` or later."""


def announce(ledger: Ledger, pipeline: str, announcer: Announcer, events: AssetEvents) -> list[Publication]:
    """Take what this task is to announce, in the order in which it was published; nothing that another task may still announce.

    The task must announce all of it and then succeed. Where it does not, the next task that asks takes the same batches.

    Raises:
        RetryableError: The ledger did not answer.
    """
    waiting = publications.waiting(ledger, pipeline)
    if not waiting:
        return []
    # Asked before the events are: a task that has ended by now has all of its events there. The other way round it could succeed in between.
    others = {batch.announcer for batch in waiting} - {None, announcer}
    running = {other for other in others if other is not None and events.may_succeed(other)}
    announced = events.announced(min(batch.published_at for batch in waiting))
    seen = [batch for batch in waiting if batch.attempt in announced]
    publications.confirm(ledger, seen)
    free = [batch for batch in waiting if batch.attempt not in announced and batch.announcer not in running]
    return publications.take(ledger, free, announcer)
