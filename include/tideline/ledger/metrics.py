"""Read the numbers of all pipelines for monitoring, one query for each question.

Read-only, as `tideline.ledger.queries` is. No query's cost grows with the number of batches: a monitoring system asks every few seconds.
"""

from typing import Any

from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row

RECENT_SECONDS = 3_600
"""How far back the figures about recent batches reach."""
MOST_BATCHES = 100
"""The most batches of a pipeline that these figures are about: the newest ones."""
MOST_REJECTS = 20_000
"""The most rejects of a pipeline that are counted."""
_STATEMENT_MILLISECONDS = 5_000


def limit(ledger: Ledger) -> None:
    """Limit the time of each later statement of this transaction: numbers that come too late are of no use."""
    ledger.rows("limit_statements", milliseconds=_STATEMENT_MILLISECONDS)


def work(ledger: Ledger) -> list[Row]:
    """Return for each pipeline when it last planned a batch, and when its oldest open batch was planned."""
    return _dicts(ledger.rows("view_work"))


def recent_work(ledger: Ledger) -> list[Row]:
    """Return for each pipeline the seconds that batches took which were published lately, and the counts of their records."""
    return _dicts(ledger.rows("view_recent_work", seconds=RECENT_SECONDS, most=MOST_BATCHES))


def recent_fields(ledger: Ledger) -> list[Row]:
    """Return for each pipeline how many fields that no column takes its records had lately, as `recent_work` counts batches."""
    return _dicts(ledger.rows("view_recent_fields", seconds=RECENT_SECONDS, most=MOST_BATCHES))


def hole_sums(ledger: Ledger) -> list[Row]:
    """Return the number of offsets in holes, by pipeline and kind. A pipeline without holes has no row."""
    return _dicts(ledger.rows("view_hole_sums"))


def reject_steps(ledger: Ledger) -> list[Row] | None:
    """Return the number of rejects that are kept, by pipeline and step, of at most `MOST_REJECTS` rejects of a pipeline.

    None if the role may not read rejects: an error would end the transaction, and with it all other numbers.
    """
    [row] = ledger.rows("may_see_rejects")
    if not row["may"]:
        return None
    return _dicts(ledger.rows("view_reject_steps", most=MOST_REJECTS))


def outbox(ledger: Ledger) -> list[Row]:
    """Return for each pipeline how many published batches have no asset event yet, and since when the oldest waits."""
    return _dicts(ledger.rows("view_outbox"))


def state_sizes(ledger: Ledger) -> list[Row]:
    """Return for each stateful pipeline about how many keys it keeps, and their bytes; None before Postgres has statistics."""
    return _dicts(ledger.rows("view_state_sizes"))


def _dicts(rows: list[Any]) -> list[Row]:
    return [dict(row) for row in rows]
