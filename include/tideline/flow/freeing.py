"""free_table: let another pipeline have the table of one that was given up."""

from tideline.errors import FatalError
from tideline.flow.operator_decisions import deciding
from tideline.ledger import decisions, output_tables, reservations
from tideline.ledger.connection import Ledger


def free_table(ledger: Ledger, pipeline: str, *, reason: str) -> str:
    """Release the table of a pipeline that was given up, so that another pipeline can claim it, and return the table's name.

    The rows stay. A later plan of the pipeline claims the table again.

    Raises:
        FatalError: The ledger does not know the pipeline, it has no table, batches of it are open, or the reason is blank.
    """
    with ledger.transaction():
        known = reservations.is_known(ledger, pipeline)
    if not known:
        raise FatalError(
            f"expected a pipeline that the ledger knows, found {pipeline!r}",
            next_step="check the name: tideline pipelines",
            entry="no-such-pipeline",
        )
    with deciding(ledger, pipeline, reason):
        decisions.set_reason(ledger, reason)
        return output_tables.free(ledger, pipeline)
