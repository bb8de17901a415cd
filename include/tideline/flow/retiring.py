"""retire: take a pipeline that was given up out of sight, and back. An operator's decision, with a reason."""

from tideline.errors import FatalError
from tideline.flow.known_pipelines import check_known
from tideline.flow.operator_decisions import deciding
from tideline.ledger import decisions, reservations
from tideline.ledger.connection import Ledger


def retire(ledger: Ledger, pipeline: str, *, reason: str, back: bool = False, dry_run: bool = False) -> bool:
    """Leave a pipeline out of lists and numbers as long as no folder declares it, or with `back` show it again. Return whether that is new.

    Nothing of it is deleted, and what is asked for by its name is still shown. The next plan of it brings it back, so nothing that loads is out of
    sight. With `dry_run`, change nothing.

    Raises:
        FatalError: The ledger does not know the pipeline, batches of it are open, or the reason is blank.
    """
    check_known(ledger, pipeline)
    with deciding(ledger, pipeline, reason, dry_run=dry_run):
        decisions.set_reason(ledger, reason)
        opened = [] if back else sorted(batch.batch_id for batch in reservations.open_batches(ledger, pipeline))
        if opened:
            raise FatalError(
                f"{pipeline}: expected no open batches of a pipeline that retires, found {', '.join(map(str, opened))}",
                next_step=f"with its folder in place, give them up first: tideline abandon {opened[0]} --reason ...",
                entry="pipeline-does-not-retire",
            )
        return decisions.set_retired(ledger, pipeline, retired=not back)
