"""Find the rows of a table that a step cannot take, so that a bad row costs itself and not its batch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from tideline.errors import FatalError

Result = TypeVar("Result")

SAMPLE = 100
"""When each of this many rows, tried one by one, fails a step, the step is at fault and not the rows."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row that a step could not take."""

    row: pa.Table
    """Exactly one row, as it came into the step."""
    reason: str


class StepError(FatalError):
    """A step fails for every row it is given."""


def isolate(
    table: pa.Table, step: Callable[[pa.Table], Result], errors: tuple[type[Exception], ...], *, name: str
) -> tuple[list[Result], list[Refusal]]:
    """Run `step` over `table`; where it raises one of `errors`, over halves of it, down to single rows.

    Rows keep their order. For k bad rows of n this runs the step about `2 k log2(n / k)` times over ever smaller tables.

    Args:
        table: What to run the step over.
        step: Must give the same for rows together and apart; must leave nothing behind when it raises.
        errors: What a bad row makes the step raise. Anything else fails the batch.
        name: What the step is, for messages.

    Raises:
        StepError: The first `SAMPLE` rows that were tried one by one failed, and none passed.
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
            refusals.append(Refusal(part, one_line(error)))
            if len(refusals) == SAMPLE and not results:
                raise StepError(
                    f"{name} failed for each of the first {SAMPLE} records: {one_line(error)}",
                    next_step=f"correct {name} and run the task again; nothing was published",
                ) from error
    return results, refusals


def one_line(error: BaseException) -> str:
    """An error as a reason: its type and its first line, at most 500 characters."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}"[:500] if text else type(error).__name__
