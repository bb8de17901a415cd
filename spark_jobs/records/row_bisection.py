"""Find the rows of a table that a step cannot take, so that a bad row costs itself and not its batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from spark_jobs.records.reject_reasons import of_error
from tideline.errors import FatalError

Result = TypeVar("Result")

SAMPLE = 100
"""When this many rows, tried one by one, have failed and none has passed, and as many spread over the table fail too, the step is at fault."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row that a step could not take."""

    row: pa.Table
    """Exactly one row, as it came into the step."""
    reason: str


class StepError(FatalError):
    """A step fails for every row it is given."""


def isolate(
    table: pa.Table, step: Callable[[pa.Table], Result], errors: tuple[type[Exception], ...], *, suspect: str | None
) -> tuple[list[Result], list[Refusal]]:
    """Run `step` over `table`; where it raises one of `errors`, over halves of it, down to single rows.

    Rows keep their order. For k bad rows of n this runs the step about `2 k log2(n / k)` times over ever smaller tables.

    Args:
        table: What to run the step over.
        step: Must give the same for rows together and apart; must leave nothing behind when it raises.
        errors: What a bad row makes the step raise. Anything else fails the batch.
        suspect: The name of a step that may itself be at fault; it must have no effects, since rows are tried on it twice. None where only
            rows can be.

    Raises:
        StepError: A suspect step fails throughout.
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
    """Whether rows spread evenly over the table fail as well: a run of bad records at its start is no fault of the step."""
    for start in range(0, table.num_rows, max(1, table.num_rows // SAMPLE)):
        try:
            step(table.slice(start, 1))
        except errors:
            continue
        return False
    return True
