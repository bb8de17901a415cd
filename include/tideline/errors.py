"""Every error that Tideline raises on purpose, sorted by what a person or a scheduler should do about it.

A message is for the person at 3 am: where it happened, what was expected and what was found, and the next step.
"""


class TidelineError(Exception):
    """Root of all errors that Tideline raises on purpose.

    Args:
        problem: Where it happened, what was expected, what was found.
        next_step: What the reader should do now, as an instruction.
        entry: The heading in docs/runbook.md under which more is said about it, as in a link.
    """

    exit_code = 1

    def __init__(self, problem: str, *, next_step: str, entry: str | None = None) -> None:
        more = f"\n  More: docs/runbook.md#{entry}" if entry else ""
        super().__init__(f"{problem}\n  Next: {next_step}{more}")
        self.problem = problem
        self.next_step = next_step
        self.entry = entry


class RetryableError(TidelineError):
    """The world was in the way (broker down, lock held, connection lost): the same call may succeed later."""

    exit_code = 10


class FatalError(TidelineError):
    """A declaration, a transform or a table is wrong: trying again without a change cannot help."""

    exit_code = 20


class NeedsOperatorError(TidelineError):
    """Data may be lost or doubled if Tideline decided by itself: a person has to decide."""

    exit_code = 30


class SupersededError(TidelineError):
    """A newer attempt has claimed the batch: this one may stage, but can no longer publish. Nothing is lost."""

    exit_code = 40
