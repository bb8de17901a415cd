"""What a wish or a command is about, found by remainder among what there is."""

from collections.abc import Sequence
from typing import Protocol

from faults.actions import TOPIC, Abandon, AcceptLoss, AdoptTopic, DryRun, Retry, Skip, Task, Upkeep
from faults.operations import ABatch, Decide, Decision, Look, SkipOffsets, SomeRejects, Wish
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, OneBatch, Rejects, Request


class There(Protocol):
    """What there is."""

    def batches(self) -> Sequence[int]:
        """All batches, oldest first."""

    def partitions(self) -> int:
        """How many partitions the topic has, or had before it was deleted; at least one."""

    def pipelines(self) -> Sequence[str]:
        """All that read the topic."""


def request(wish: Wish, there: There) -> Request | None:
    """What is asked for; None where there is nothing like it."""
    match wish:
        case ABatch():
            batch_id = _batch(wish.number, there)
            return None if batch_id is None else OneBatch(batch_id=batch_id, replace=wish.replace)
        case SomeRejects():
            return Rejects(batch_id=None if wish.number is None else _batch(wish.number, there))
        case _:
            return wish


def command(operation: Decide | SkipOffsets | Look, there: There) -> Task | None:
    """What a person does; None where there is nothing to do it to."""
    match operation:
        case Look():
            asked = request(operation.wish, there)
            return DryRun(asked) if asked else None
        case SkipOffsets():
            piece = OffsetRange(operation.start, operation.start + operation.length)
            return Skip(NamedRange(TOPIC, operation.partition % there.partitions(), piece))
        case Decide():
            return _decision(operation, there)


def pipeline(number: int, there: There) -> str:
    """One of those that there are."""
    names = there.pipelines()
    return names[number % len(names)]


def _decision(operation: Decide, there: There) -> Task | None:
    name = pipeline(operation.pipeline, there)
    match operation.decision:
        case Decision.ABANDON | Decision.RETRY:
            batch_id = _batch(operation.number, there)
            verb = Abandon if operation.decision is Decision.ABANDON else Retry
            return None if batch_id is None else verb(batch_id)
        case Decision.ACCEPT_LOSS:
            return AcceptLoss(operation.number % there.partitions(), name)
        case Decision.ACCEPT_ALL:
            return AcceptLoss(pipeline=name)
        case Decision.ADOPT:
            return AdoptTopic(name)
        case Decision.UPKEEP:
            return Upkeep(name)


def _batch(number: int, there: There) -> int | None:
    batches = there.batches()
    return batches[number % len(batches)] if batches else None
