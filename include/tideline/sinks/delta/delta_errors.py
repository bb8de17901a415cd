"""What goes wrong with a batch in a Delta table, as messages for an operator."""

from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.sinks.delta import delta_features
from tideline.sinks.delta.delta_log import Location, RefusedTableError
from tideline.sinks.delta.delta_receipts import UntoldError
from tideline.sinks.outside import ForgottenError


def missing(location: Location, why: str) -> NeedsOperatorError:
    """Return the error to raise if there is no table. `why` says why there must be one."""
    return NeedsOperatorError(
        f"{location.pipeline}: expected the Delta table {location.uri}, because {why}; found no table there",
        next_step="mount its storage, or restore it, and run the task again; only if it was removed on purpose: "
        f"tideline recreate-table {location.pipeline} --reason ...",
        entry="delta-table-is-missing",
    )


def created_anew(location: Location, batch: BatchIdentity, own: Receipt) -> RetryableError:
    """Return the error to raise if the table that an attempt has prepared was replaced by an empty one."""
    return RetryableError(
        f"{location.pipeline} {batch} attempt {own.fence}: {location.uri} was created anew since it began",
        next_step="run the task again: its next attempt gives the table its columns",
        entry="delta-table-is-missing",
    )


def forgotten(location: Location, batch: BatchIdentity, fence: int) -> ForgottenError:
    """Return the error to raise if an attempt has committed a batch and the log does not reach back to its commit."""
    return ForgottenError(
        f"{location.pipeline} {batch}: attempt {fence} has committed to {location.uri}, and the log of the table "
        "does not reach back to its commit any more",
        next_step=f"compare the rows with tideline_batch = {batch.batch_id} with the batch: tideline batch {batch.batch_id}",
        entry="delta-commit-is-gone",
        fence=fence,
    )


def untold(location: Location, batch: BatchIdentity, fence: int, error: UntoldError) -> ForgottenError:
    """Return the error to raise if an attempt has committed a batch and a restore does not tell whether its rows are still there."""
    return ForgottenError(
        f"{location.pipeline} {batch}: attempt {fence} has committed to {location.uri}, the output was restored to a moment that its log does not "
        f"tell (version {error.version}), and the rows may be gone",
        next_step=f"look for rows with tideline_batch = {batch.batch_id}; only if there are none: "
        f"tideline abandon {batch.batch_id} --force --reason ...",
        entry="output-was-restored",
        fence=fence,
    )


def refused(location: Location, what: str, error: RefusedTableError) -> FatalError:
    """Return the error to raise if a table may not be written as it is."""
    how = f"with Spark SQL: {delta_features.undoing(location.uri, error.unkept)}; " if error.unkept else ""
    return FatalError(
        f"{location.pipeline} {what}: {location.uri} was left alone: {error}",
        next_step=f"{how}until that is changed, nothing is loaded, fenced or given up in this table",
        entry="delta-table-is-left-alone",
    )


def superseded(
    location: Location, batch: BatchIdentity, own: Receipt, version: int | None, receipt: Receipt | None
) -> SupersededError:
    """Return the error to raise in an attempt that may not commit."""
    who = f"attempt {receipt.fence} has committed it" if receipt else f"it is fenced up to {(version or 0) // 2}"
    return SupersededError(
        f"{location.pipeline} {batch} attempt {own.fence} was refused by {location.uri}: {who}",
        next_step="nothing: a newer attempt has the batch, or it was abandoned; this one has changed nothing",
    )
