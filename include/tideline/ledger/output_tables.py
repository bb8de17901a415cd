"""Record which pipeline writes which table. Called by `flow` and the Postgres sink.

Each plan claims the pipeline's table, and each write claims it again before it begins, within their transactions.

The law: two pipelines write one table only if both declare `sink.shared`. Claims are stored in the ledger, so that the
law also holds between deployments that do not see each other's declarations. The table is always in the ledger's own
database.
"""

import psycopg2.errors

from tideline.errors import FatalError, RetryableError
from tideline.ledger import reservations
from tideline.ledger.connection import Ledger


def claim(ledger: Ledger, pipeline: str, table: str, *, shared: bool) -> None:
    """Claim the table that the pipeline declares. The table that it had before is free.

    Raises:
        FatalError: Another pipeline has the table, and not both of them declare it shared.
        RetryableError: Another pipeline claims it at this moment.
    """
    try:
        others = ledger.rows("claim_table", pipeline=pipeline, table=table, shared=shared)
    except psycopg2.errors.ExclusionViolation as error:
        raise RetryableError(
            f"{pipeline}: another pipeline has just claimed table {table}",
            next_step="run the task again: it names the other pipeline",
            entry="table-of-another-pipeline",
        ) from error
    if others:
        names = ", ".join(row["pipeline"] for row in others)
        undeclared = [pipeline] if not shared else []
        undeclared += [row["pipeline"] for row in others if not row["shared"]]
        raise FatalError(
            f"{pipeline}: expected table {table} for itself, found that pipeline {names} writes it as well",
            next_step=f"declare another sink.table, or declare sink.shared: true in {' and '.join(undeclared)} and let these plan again; "
            f"if {names} was given up: tideline free-table {others[0]['pipeline']} --reason ...",
            entry="table-of-another-pipeline",
        )


def free(ledger: Ledger, pipeline: str) -> str:
    """Free the table of a pipeline that was given up, so that others can claim it. Return the table's name.

    Raises:
        FatalError: The pipeline has no table, or batches of it are open: they could still be published into it.
    """
    opened = sorted(batch.batch_id for batch in reservations.open_batches(ledger, pipeline))
    if opened:
        raise FatalError(
            f"{pipeline}: expected no open batches, found {', '.join(map(str, opened))}: they could still be written",
            next_step=f"give them up first: tideline abandon {opened[0]} --reason ...",
            entry="table-is-not-free",
        )
    row = ledger.row("free_table", pipeline=pipeline)
    if row is None:
        raise FatalError(
            f"{pipeline}: expected a table that it writes, found none in the ledger",
            next_step="look at the pipelines: tideline pipelines",
            entry="table-is-not-free",
        )
    return str(row["table_name"])
