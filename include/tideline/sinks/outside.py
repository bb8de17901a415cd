"""An output outside of the ledger's database, as far as the ledger needs it: fence a batch, and look its receipt up.

The rows are committed by the Spark job, in one step of the sink; the ledger follows. This needs no JVM, so that a plan and the
command line can fence too.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol
from uuid import UUID

from tideline.domain.receipts import BatchIdentity, Receipt
from tideline.errors import NeedsOperatorError

LEAST_DAYS = 1.0
"""Brokers of an output topic that remember receipts for less are refused."""


class Memory(NamedTuple):
    """How long an output remembers receipts."""

    days: float | None
    """By its settings. None if the user may not read them."""
    sure_days: float
    """How long a receipt is sure to be found after its commit."""


class ForgottenError(NeedsOperatorError):
    """An attempt has committed a batch, and the sink has forgotten its identity. It still knows the fence.

    Args:
        problem: Where, and what was found.
        next_step: What the operator should do.
        entry: The heading in docs/runbook.md.
        fence: The fence of the attempt.
    """

    def __init__(self, problem: str, *, next_step: str, entry: str, fence: int) -> None:
        super().__init__(problem, next_step=next_step, entry=entry)
        self.fence = fence


class UncertainError(NeedsOperatorError):
    """An attempt may have committed a batch: the sink may have forgotten its receipt, and its output does not tell."""


class OutsideSink(Protocol):
    """One output outside of the ledger's database. It keeps the version of each batch, see `domain.receipts`."""

    @property
    def remembers_days(self) -> float | None:
        """How long a receipt is sure to be found after its commit. None for ever."""

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        """Make sure that no attempt below `fence` can commit any more. Return the receipt of the one that has committed, if any.

        A commit in flight is decided when this returns: it is the receipt, or it can never happen. Calling it again is harmless.

        Raises:
            RetryableError: The sink did not answer. Whether it has fenced is unknown.
            FatalError: The output may not be written as it is. It has not fenced.
            ForgottenError: An attempt has committed, and the sink has forgotten which one.
            UncertainError: An attempt may have committed, and nothing tells any more. The batch is not fenced.
            NeedsOperatorError: There is no output, and the ledger knows that there was one.
        """

    def look(self, batch: BatchIdentity) -> Receipt | None:
        """Return the receipt of a batch. Fences nothing, so a commit in flight may still happen after None.

        Raises:
            RetryableError: The sink did not answer.
            ForgottenError: As above.
            NeedsOperatorError: As above.
        """

    def identities(self) -> Collection[UUID]:
        """Return the identities of all batches of the pipeline that the sink has a version of: committed, or only fenced.

        Raises:
            RetryableError: The sink did not answer.
            NeedsOperatorError: As above.
        """
