"""retry: record that an operator wants an open batch to be written now, and not by the next run."""

from tideline.domain.states import BatchState
from tideline.errors import FatalError
from tideline.ledger import decisions
from tideline.ledger.connection import Ledger, json

_OPEN = {BatchState.PLANNED, BatchState.WRITING, BatchState.FAILED}


def retry(ledger: Ledger, batch_id: int, *, reason: str, dry_run: bool = False) -> str:
    """Record that an operator wants a batch to be written, and return its pipeline: a run of its DAG that loads `a batch` can write it.

    Nothing but the history changes, and with `dry_run` not even that. The next attempt that claims the batch writes the ranges that the batch has.

    Raises:
        FatalError: There is no such batch, it is not open, or the reason is blank.
    """
    if not reason.strip():
        raise FatalError(
            "a retry needs a reason, found none: it is stored in the history",
            next_step="say why: --reason '...'",
            entry="no-reason",
        )
    with ledger.transaction():
        batch = ledger.row("find_batch", batch_id=batch_id)
        if batch is None:
            raise FatalError(
                f"batch {batch_id} is not in the ledger",
                next_step="look its number up: tideline batches PIPELINE",
                entry="no-such-batch",
            )
        if batch["state"] not in _OPEN:
            raise FatalError(
                f"batch {batch_id} is {batch['state']}: there is nothing left to write",
                next_step=_to_load_again(batch["pipeline"], batch_id, stateful=batch["stateful"]),
                entry="batch-is-published",
            )
        if not dry_run:
            decisions.set_reason(ledger, reason)
            ledger.run(
                "record_event",
                action="retry",
                pipeline=batch["pipeline"],
                batch_id=batch_id,
                stream_id=None,
                attempt=None,
                detail=json({}),
            )
    return str(batch["pipeline"])


def _to_load_again(pipeline: str, batch_id: int, *, stateful: bool) -> str:
    if stateful:
        return f"to fold its records again, and all since: tideline rewind {pipeline} --to-batch N --reason ..., N being the batch before it"
    return f"to load its offsets again: tideline replay {pipeline} --batch {batch_id} --reason ..."
