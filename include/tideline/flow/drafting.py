"""dry_run: find what `plan` would reserve, without reserving it."""

from dataclasses import dataclass

from tideline.declaration import Pipeline
from tideline.domain.requests import NamedRange, Request
from tideline.domain.states import BatchKind
from tideline.flow import claiming
from tideline.flow.planning import PlanCall, plan_in_transaction
from tideline.flow.retention import report
from tideline.kafka.broker import Broker
from tideline.ledger import attempts, heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A batch that `plan` would reserve."""

    kind: BatchKind
    ranges: list[NamedRange]


def dry_run(ledger: Ledger, broker: Broker, pipeline: Pipeline, request: Request) -> tuple[list[Draft], list[str]]:
    """Return what `plan` would reserve now, and its notes, without reserving it. Raise what `plan` raises."""
    call = PlanCall(
        ledger=ledger,
        broker=broker,
        pipeline=pipeline,
        run=Run(dag_id="dry run", run_id="dry run"),
        reason=None,
        outputs=claiming.outputs(pipeline, broker),
    )
    try:
        with ledger.transaction():
            # As an advance and then a plan would, with one lock: a walk without it would deadlock with another process's plan.
            reservations.lock_pipeline(ledger, pipeline.name)
            heads.walk(ledger, pipeline.name)
            planned, found = plan_in_transaction(call, request)
            drafts = [_drafted(ledger, batch_id) for batch_id in planned.batch_ids]
            raise _UndoError  # noqa: TRY301 - rolls back the transaction
    except _UndoError:
        pass
    if found is not None:
        planned.notes.extend(report(broker, pipeline.name, found, request=request, idle=not planned.batch_ids))
    return drafts, planned.notes


class _UndoError(Exception):
    """Rolls back the transaction of a dry run."""


def _drafted(ledger: Ledger, batch_id: int) -> Draft:
    ranges = [NamedRange(piece.topic, piece.partition, piece.offsets) for piece in attempts.ranges(ledger, batch_id)]
    return Draft(kind=attempts.kind_of(ledger, batch_id), ranges=ranges)
