"""Find the rows of a table that a step cannot process, so that a bad row does not fail its batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tideline.domain.reject_reasons import of_error
from tideline.errors import FatalError

Result = TypeVar("Result")

SAMPLE = 100
"""The step is at fault if this many single rows have failed and none has passed, and as many rows spread evenly over the table fail as well."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row that a step could not process."""

    row: pa.Table
    """A table with exactly this row, as the input of the step."""
    reason: str


class StepError(FatalError):
    """A step fails for every row."""


def isolate(
    table: pa.Table, step: Callable[[pa.Table], Result], errors: tuple[type[Exception], ...], *, suspect: str | None
) -> tuple[list[Result], list[Refusal]]:
    """Run `step` over `table`. If it raises one of `errors`, run it over both halves, and so on down to single rows.

    Rows keep their order. With k bad rows among n rows, the step runs about `2 k log2(n / k)` times over ever smaller
    tables.

    Args:
        table: What to run the step over.
        step: Must give the same result for rows together and for each row alone. Must have no effect when it raises.
        errors: The errors that the step raises for a bad row. Any other error fails the batch.
        suspect: The name of a step that may itself be at fault. It must have no side effects, since it runs twice over
            some rows. None if only rows can be at fault.

    Raises:
        StepError: A suspect step fails for all rows that were tried.
    """
    results: list[Result] = []
    refusals: list[Refusal] = []
    waiting = [table] if table.num_rows else []
    while waiting:
        part = waiting.pop()
        try:
            results.append(step(part))
        except errors as error:
            if part.num_rows > 1:
                half = part.num_rows // 2
                waiting += [part.slice(half), part.slice(0, half)]
                continue
            refusals.append(Refusal(part, of_error(error)))
            if suspect and len(refusals) == SAMPLE and not results and _fails_throughout(table, step, errors):
                raise StepError(
                    f"{suspect} failed for each of the first {SAMPLE} records: {of_error(error)}",
                    next_step=f"correct {suspect} and run the task again; nothing was published",
                    entry="transform",
                ) from error
    return results, refusals


def _fails_throughout(table: pa.Table, step: Callable[[pa.Table], Result], errors: tuple[type[Exception], ...]) -> bool:
    """Return whether rows spread evenly over the table fail as well. Many bad records only at its start are not a fault of the step."""
    for start in range(0, table.num_rows, max(1, table.num_rows // SAMPLE)):
        try:
            step(table.slice(start, 1))
        except errors:
            continue
        return False
    return True
