"""Clean up claims of dead writers, staging that can no longer be published, and old events. Called by `flow.upkeep`."""

from psycopg2.sql import SQL, Identifier

from tideline.errors import RetryableError
from tideline.ledger.connection import Ledger
from tideline.statements import statement

SILENT_SECONDS = 600.0
"""An attempt without a heartbeat for this long counts as dead.

Ten times as long as another run waits for it: upkeep is never urgent.
"""


def expire_claims(ledger: Ledger, pipeline: str) -> list[str]:
    """Fail attempts whose heartbeat is too old, so that their batches no longer show as being written. Return a line for each.

    A writer that was only frozen is refused when it tries to publish.
    """
    done = []
    with ledger.transaction():
        for claim in ledger.rows("list_silent_claims", pipeline=pipeline, silent_seconds=SILENT_SECONDS):
            problem = (
                f"silent for {claim['silent_seconds']:.0f} s (pid {claim['pid']} on {claim['host']}): taken for dead"
            )
            if ledger.rows("fail_batch", batch_id=claim["batch_id"], attempt=claim["attempt"]):
                ledger.run("end_attempt", attempt=claim["attempt"], outcome="failed", problem=problem)
                done.append(f"{pipeline} batch {claim['batch_id']} attempt {claim['fence']}: {problem}")
    return done


def drop_staging(ledger: Ledger, pipeline: str) -> list[str]:
    """Drop the staging of attempts that have ended or were taken over; staging of a living attempt stays.

    Return a line for each table, and one for the rows deleted from the ledger's own staging tables.
    """
    with ledger.transaction():
        names = [row["name"] for row in ledger.rows("list_dead_staging", pipeline=pipeline)]
    done = [_drop(ledger, name) for name in names]
    with ledger.transaction():
        n_rows = ledger.rows("clear_dead_staging", pipeline=pipeline)[0]["n_rows"]
    if n_rows:
        done.append(f"{pipeline}: {n_rows} staged counts and rejects of dead attempts deleted")
    return done


def _drop(ledger: Ledger, name: str) -> str:
    try:
        with ledger.transaction():
            ledger.run("drop_dead_staging", table=name)
    except RetryableError as error:
        # An orphan may still be writing to the table. A later upkeep drops it.
        return f"tideline_staging.{name}: stays for now: {error.problem}"
    return f"tideline_staging.{name}: dropped"


def prune_events(ledger: Ledger, pipeline: str, days: int | None) -> list[str]:
    """Delete events of finished work that are older than `days`; none if `days` is None. Return a line if any were deleted.

    Decisions about offsets stay in the coverage, with reason and name.
    """
    if days is None:
        return []
    with ledger.transaction():
        n_events = ledger.rows("prune_events", pipeline=pipeline, days=days)[0]["n_events"]
    return [f"{pipeline}: {n_events} events older than {days} days deleted"] if n_events else []


def prune_marks(ledger: Ledger, pipeline: str, schema: str, table: str) -> list[str]:
    """Delete the marks of tombstones that no older record can come before any more. Return a line if any were deleted.

    Args:
        ledger: The session.
        pipeline: The pipeline, for the line.
        schema: The schema of its output table.
        table: The name of its table of deleted keys, which the first batch creates.
    """
    there = SQL(statement("tideline.ledger", "find_table"))
    query = SQL(statement("tideline.ledger", "prune_marks"))
    try:
        with ledger.transaction():
            if not ledger.rows_of(there, {"schema": schema, "table": table}):
                return []
            n_marks = ledger.run_sql(query.format(marks=Identifier(schema, table)), {})
    except RetryableError as error:
        # A batch is being published into the table. A later upkeep prunes the marks.
        return [f"{schema}.{table}: stays as it is for now: {error.problem}"]
    return [f"{pipeline}: {n_marks} marks deleted from {schema}.{table}: no older record can come"] if n_marks else []
