"""Every error that Tideline raises on purpose, one class for each reaction that an operator or a scheduler should have.

A message is written for an operator at 3 am: where it happened, what was expected, what was found, and the next step.
"""

import copyreg
from typing import Any


class TidelineError(Exception):
    """Base class of all errors that Tideline raises on purpose.

    Args:
        problem: Where it happened, what was expected, what was found.
        next_step: What the operator should do now, as an instruction.
        entry: The anchor of the heading in docs/runbook.md that explains the error.
    """

    exit_code = 1

    def __init__(self, problem: str, *, next_step: str, entry: str | None = None) -> None:
        more = f"\n  More: docs/runbook.md#{entry}" if entry else ""
        super().__init__(f"{problem}\n  Next: {next_step}{more}")
        self.problem = problem
        self.next_step = next_step
        self.entry = entry

    def __reduce__(self) -> tuple[Any, ...]:
        """Let an error reach another process whole. By default pickle calls the class with `args`, which lacks `next_step`."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class RetryableError(TidelineError):
    """A dependency is temporarily unavailable (broker down, lock held, connection lost): the same call may succeed later."""

    exit_code = 10


class FatalError(TidelineError):
    """A declaration, a transform or a table is wrong: another try without a change cannot succeed."""

    exit_code = 20


class UnknownPipelineError(FatalError):
    """Neither a folder nor, where it was asked, the ledger has a pipeline of this name. The message lists those that have a folder."""


class NeedsOperatorError(TidelineError):
    """An automatic decision could lose or duplicate data: an operator has to decide."""

    exit_code = 30


class SupersededError(TidelineError):
    """A newer attempt has claimed the batch: this attempt may still stage rows, but can no longer publish. No data is lost."""

    exit_code = 40
