"""Resolve what a drawn request or command refers to: its number, modulo the count of existing batches, partitions or
pipelines."""

from collections.abc import Sequence
from typing import Protocol

from faults.actions import TOPIC, Abandon, AcceptLoss, AdoptTopic, DryRun, Retry, Rewind, Skip, Task, Upkeep
from faults.operations import ABatch, Decide, Decision, DrawnRequest, GoBack, Look, SkipOffsets, SomeRejects
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, OneBatch, Request


class Inventory(Protocol):
    """What exists at the moment and can be referred to by number."""

    def batches(self) -> Sequence[int]:
        """Return the ids of all batches, oldest first."""

    def partitions(self) -> int:
        """Return the number of partitions of the topic, or of the deleted topic before its deletion; at least one."""

    def pipelines(self) -> Sequence[str]:
        """Return the names of all pipelines that read the topic."""


def request(drawn: DrawnRequest, inventory: Inventory) -> Request | None:
    """Return the request with real batch ids; None if it refers to a batch and none exists."""
    match drawn:
        case ABatch():
            batch_id = _batch(drawn.number, inventory)
            return None if batch_id is None else OneBatch(batch_id=batch_id, replace=drawn.replace)
        case SomeRejects():
            return KeptRejects(batch_id=None if drawn.number is None else _batch(drawn.number, inventory))
        case _:
            return drawn


def command(operation: Decide | GoBack | SkipOffsets | Look, inventory: Inventory) -> Task | None:
    """Return the operator command; None if it refers to a batch and none exists."""
    match operation:
        case Look():
            resolved = request(operation.request, inventory)
            return DryRun(resolved) if resolved else None
        case SkipOffsets():
            piece = OffsetRange(operation.start, operation.start + operation.length)
            return Skip(NamedRange(TOPIC, operation.partition % inventory.partitions(), piece))
        case GoBack():
            batch_id = 0 if operation.number is None else _batch(operation.number, inventory)
            name = pipeline(operation.pipeline, inventory)
            return None if batch_id is None else Rewind(batch_id, operation.dry_run, name)
        case Decide():
            return _decision(operation, inventory)


def pipeline(number: int, inventory: Inventory) -> str:
    """Return the name of an existing pipeline."""
    names = inventory.pipelines()
    return names[number % len(names)]


def _decision(operation: Decide, inventory: Inventory) -> Task | None:
    name = pipeline(operation.pipeline, inventory)
    match operation.decision:
        case Decision.ABANDON | Decision.RETRY:
            batch_id = _batch(operation.number, inventory)
            verb = Abandon if operation.decision is Decision.ABANDON else Retry
            return None if batch_id is None else verb(batch_id)
        case Decision.ACCEPT_LOSS:
            return AcceptLoss(operation.number % inventory.partitions(), name)
        case Decision.ACCEPT_ALL:
            return AcceptLoss(pipeline=name)
        case Decision.ADOPT:
            return AdoptTopic(name)
        case Decision.UPKEEP:
            return Upkeep(name)


def _batch(number: int, inventory: Inventory) -> int | None:
    batches = inventory.batches()
    return batches[number % len(batches)] if batches else None
