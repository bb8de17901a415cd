"""Publish the states that a batch has changed, within the publishing transaction. Called by the Postgres sink before the batch is published.

The database keeps how each state and position was before, and refuses a batch that does not begin where its streams are folded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg2.extras import DictRow
from psycopg2.sql import SQL, Composed, Identifier

from tideline.errors import RetryableError
from tideline.ledger import staged, state, state_columns
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.state import Position
from tideline.ledger.state_columns import StateColumns
from tideline.statements import statement

SUFFIX = "_state"
"""What the name of a table of staged states adds to that of the attempt's staging table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedStates:
    """The states that an attempt has staged, with what it has found before it read."""

    table: str
    """The table in the schema of staging tables. A row without a value says that the key has no state any more."""
    folding: Mapping[int, int]
    """By winning task of the first phase, in which records are folded, how many states it has staged."""
    expiring: Mapping[int, int]
    """The same for the second phase, in which keys expire after the batch's records."""
    after: int
    """The number of the batch that was folded last when nothing was read yet: `state.newest_fold`."""
    positions: Mapping[int, Position]
    """By stream id, the positions before anything was read."""
    max_times: Mapping[int, datetime]
    """By stream id, the largest event time of the batch; nothing for a stream without one."""
    processor: str
    """The version of the processor, for the history."""
    columns: StateColumns
    n_expired: int
    """How many rows `on_expiry` has made."""
    resets: bool = False
    """Whether streams with a gap begin without any state. Defaults to False."""


def create_staging(ledger: Ledger, table: str) -> None:
    """Create the table in which an attempt stages states, in the transaction of the caller. It is called as the staging table, with `SUFFIX`."""
    text = SQL(statement("tideline.ledger", "create_state_staging"))
    ledger.run_sql(text.format(staging=Identifier("tideline_staging", table)), {})
    staged.let_stager_in(ledger, table)


def publish_states(ledger: Ledger, attempt: Attempt, staged: StagedStates) -> None:
    """Change states and positions to what the attempt has folded. The attempt holds its batch, and publishes it in the same transaction.

    Raises:
        RetryableError: The state has changed since the attempt read it, or staged states are missing or twice there.
    """
    ledger.rows("lock_positions", batch_id=attempt.batch_id)
    _check_unchanged(attempt, staged, state.in_transaction(ledger, attempt.batch_id))
    bound = {"folding": list(staged.folding), "expiring": list(staged.expiring)}
    _check_complete(attempt, staged, ledger.rows_of(_query("count_staged_states", staged), bound))
    ledger.run_sql(_query("discard_staged_states", staged), bound)
    ledger.run_sql(_query("analyze_staged_states", staged), {})
    known = {"pipeline": attempt.pipeline, "batch_id": attempt.batch_id}
    n_keys = ledger.rows_of(_query("count_kept_states", staged), {})[0]["n_keys"]
    counts = {"n_keys": n_keys, "n_expired": staged.n_expired}
    if ledger.run("fold_batch", **known, after=staged.after, processor=staged.processor, **counts) != 1:
        raise _overtaken(attempt)
    ledger.run_sql(_query("delete_states", staged), {"pipeline": attempt.pipeline})
    ledger.run_sql(_query("put_states", staged), known)
    gaps = [position.stream_id for position in staged.positions.values() if position.has_gap]
    if staged.resets and gaps:
        ledger.run("reset_states", **known, stream_ids=gaps)
    times = dict(staged.max_times)
    ledger.run(
        "move_positions", batch_id=attempt.batch_id, stream_ids=list(times), max_times=[times[one] for one in times]
    )
    state_columns.keep(ledger, attempt.pipeline, staged.columns)


def _query(name: str, staged: StagedStates) -> Composed:
    text = SQL(statement("tideline.ledger", name))
    return text.format(staging=Identifier("tideline_staging", staged.table))


def _check_unchanged(attempt: Attempt, staged: StagedStates, now: Mapping[int, Position]) -> None:
    """Refuse states that were folded from others than there are now, as after a rewind."""
    for stream_id, position in now.items():
        before = staged.positions[stream_id]
        if position.version != before.version:
            raise RetryableError(
                f"{attempt}: the state of {position.label} was folded up to {before.next_offset} when the attempt read it "
                f"(version {before.version}), and is folded up to {position.next_offset} now (version {position.version})",
                next_step="run the task again: it reads the state as it is now",
                entry="state-is-folded-in-order",
            )


def _overtaken(attempt: Attempt) -> RetryableError:
    """Return the error for a batch beside which another one was folded. It may have folded records of the same keys, from other streams."""
    return RetryableError(
        f"{attempt}: another batch of {attempt.pipeline} was folded since the attempt read the states",
        next_step="run the task again: it reads the states as they are now",
        entry="state-is-folded-in-order",
    )


def _check_complete(attempt: Attempt, staged: StagedStates, rows: list[DictRow]) -> None:
    counted = {row["phase"]: (row["n_rows"], row["n_keys"]) for row in rows}
    for phase, winners in ((1, staged.folding), (2, staged.expiring)):
        n_rows, n_keys = counted.get(phase, (0, 0))
        if n_rows != sum(winners.values()) or n_keys != n_rows:
            raise RetryableError(
                f"{attempt}: {sum(winners.values())} states were staged in phase {phase}, {n_rows} of {n_keys} keys are there: did the server crash "
                "in between?",
                next_step="run the task again",
                entry="staged-rows-are-missing",
            )
