"""Publish a batch whose rows are committed outside of the ledger's database: intend, settle, seal. Called by `flow`.

The law: after the outside commit nothing in the ledger may refuse it. So an attempt carries out its whole publication
before the commit, undoes it, and stores what it needs: its intent. To settle is the same publication again, by
whichever attempt holds the batch then. What was staged by an attempt with an intent never changes, and nothing can
take the offsets in between.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from tideline.domain.facts import PartitionFacts
from tideline.ledger import publishing
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import CommitUnknownError, Ledger, json
from tideline.ledger.publishing import Counts, Written
from tideline.ledger.refused_publications import explained, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What one attempt has declared before its outside commit."""

    attempt_id: int
    attempt: UUID
    fence: int
    output: str
    """What people call the output, such as the name of a topic."""
    n_rows: int
    """How many rows the commit holds."""
    written: Written
    facts: Mapping[int, PartitionFacts]
    filtered_by_difference: bool
    position: Mapping[str, Any] | None = None
    """Where the output ended before the commit, in the form of its sink; None if its receipts are never forgotten."""
    age_seconds: float = 0.0
    """Since it was stored, by the database's clock."""


def intend(ledger: Ledger, attempt: Attempt, intent: Intent) -> None:
    """Store what the attempt is about to commit, if its batch can be published with that.

    Raises:
        SupersededError: A newer attempt holds the batch.
        NeedsOperatorError: The counts do not add up: offsets are missing.
        RetryableError: The ledger did not answer, and the intent is not stored; or what was staged is not what was read.
    """
    with explained(attempt):
        try:
            with ledger.transaction():
                found = publishing.holder(ledger, attempt)
                if found is None:
                    ledger.rows("lock_attempt", attempt_id=attempt.attempt_id)
                    _store(ledger, attempt, intent)
                    with ledger.trial():
                        _publish(ledger, attempt, intent)
        except CommitUnknownError:
            ledger.reconnect()
            if all(stored.attempt != attempt.attempt for stored in of_batch(ledger, attempt.batch_id)):
                raise
            found = None
    if found is not None:
        raise refuse(ledger, attempt, found)


def _store(ledger: Ledger, attempt: Attempt, intent: Intent) -> None:
    ledger.run(
        "store_intent",
        attempt_id=attempt.attempt_id,
        batch_id=attempt.batch_id,
        output=intent.output,
        n_rows=intent.n_rows,
        written=json([{"stream_id": stream, "n_written": n} for stream, n in intent.written.n_written.items()]),
        redriven_streams=[stream_id for stream_id, _ in intent.written.offsets],
        redriven_offsets=[offset for _, offset in intent.written.offsets],
        facts=json({str(stream): {"log_start": f.log_start, "end": f.end} for stream, f in intent.facts.items()}),
        filtered_by_difference=intent.filtered_by_difference,
        position=None if intent.position is None else json(intent.position),
    )


def settle(ledger: Ledger, attempt: Attempt, intent: Intent) -> list[Counts]:
    """Publish a batch with what the attempt of `intent` has committed, and return its counts. `attempt` holds the batch.

    Raises:
        SupersededError: A newer attempt holds the batch, and settles it. What is committed stays.
        RetryableError: The ledger did not answer, and the batch is not published.
    """
    with explained(attempt):
        try:
            with ledger.transaction():
                found = publishing.holder(ledger, attempt)
                if found is None:
                    _publish(ledger, attempt, intent)
        except CommitUnknownError:
            if not publishing.was_published(ledger, attempt):
                raise
            found = None
    if found is not None:
        raise refuse(ledger, attempt, found)
    return publishing.counts(ledger, attempt.batch_id)


def _publish(ledger: Ledger, attempt: Attempt, intent: Intent) -> None:
    """Publish with the counts, rejects and facts of the attempt that has the intent, whichever attempt holds the batch."""
    settled = {"batch_id": attempt.batch_id, "attempt": attempt.attempt, "written_by": intent.attempt_id}
    if not ledger.rows("settle_batch", **settled):
        raise RuntimeError(f"{attempt}: the batch changed under its own lock")
    publishing.make_visible(
        ledger,
        replace(attempt, attempt_id=intent.attempt_id),
        lambda _: intent.written,
        intent.facts,
        filtered_by_difference=intent.filtered_by_difference,
    )


def seal(ledger: Ledger, batch_id: int, fence: int) -> None:
    """Record, within a transaction, what the sink has answered: no attempt below `fence` has committed or ever can."""
    ledger.rows("seal_batch", batch_id=batch_id, fence=fence)


def unsealed(ledger: Ledger, batch_id: int) -> bool:
    """Return, within a transaction, whether an open batch may be committed outside, or may still become so.

    An attempt commits only what it intends. So this is true while it has an intent that no seal has ruled out.
    """
    return bool(ledger.rows("list_unsealed", batch_id=batch_id))


def of_batch(ledger: Ledger, batch_id: int) -> list[Intent]:
    """Return the intents of a batch, newest attempt first."""
    with ledger.transaction():
        rows = ledger.rows("list_intents", batch_id=batch_id)
    return [_intent(row) for row in rows]


def unsealed_of(ledger: Ledger, batch_id: int) -> Sequence[Intent]:
    """Return the intents of a batch that no seal has ruled out, newest attempt first."""
    with ledger.transaction():
        fences = {row["fence"] for row in ledger.rows("list_unsealed", batch_id=batch_id)}
        rows = ledger.rows("list_intents", batch_id=batch_id) if fences else []
    return [_intent(row) for row in rows if row["fence"] in fences]


class NewestIntent(NamedTuple):
    """The newest attempt that was to commit to an output."""

    batch_id: int
    fence: int


def newest_to(ledger: Ledger, pipeline: str, output: str) -> NewestIntent | None:
    """Return the newest attempt of a pipeline that was to commit to an output; None if none was."""
    with ledger.transaction():
        rows = ledger.rows("find_newest_intent", pipeline=pipeline, output=output)
    return next((NewestIntent(row["batch_id"], row["fence"]) for row in rows), None)


def _intent(row: Any) -> Intent:
    return Intent(
        attempt_id=row["attempt_id"],
        attempt=row["attempt"],
        fence=row["fence"],
        output=row["output"],
        n_rows=row["n_rows"],
        written=Written(
            n_written={piece["stream_id"]: piece["n_written"] for piece in row["written"]},
            offsets=list(zip(row["redriven_streams"], row["redriven_offsets"], strict=True)),
        ),
        facts={
            int(stream): PartitionFacts(partition=0, log_start=facts["log_start"], end=facts["end"])
            for stream, facts in row["facts"].items()
        },
        filtered_by_difference=row["filtered_by_difference"],
        position=row["position"],
        age_seconds=row["age_seconds"],
    )
