"""Publish output, rejects, coverage, counts and state in one transaction. Called by the Spark job through `flow.publish`.

The law: a batch is either wholly visible and `published`, or not at all, and only its newest attempt can publish it. A
crash between two commits would break this law, so there is only one commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tideline.domain.facts import PartitionFacts
from tideline.domain.states import BatchKind
from tideline.errors import SupersededError
from tideline.ledger import events, redrives, versions
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import CommitUnknownError, Ledger, json
from tideline.ledger.refused_publications import explained, refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The counts of one range. `n_read + n_gap` is its length, and `n_read` is the sum of the other three."""

    stream_id: int
    label: str
    n_read: int
    n_written: int
    n_rejected: int
    n_filtered: int
    n_gap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a sink has inserted."""

    n_written: Mapping[int, int]
    """How many offsets were written, by stream id."""
    offsets: Sequence[tuple[int, int]] = ()
    """For a re-drive: stream id and offset of each record, because each may belong to another batch."""


InsertOutput = Callable[[Ledger], Written]
"""Inserts staged rows into the output, within the publishing transaction.

For a replay it first deletes the output's rows of the ranges. The rows of a re-drive carry the id of the batch that had
rejected them.
"""


def publish(
    ledger: Ledger,
    attempt: Attempt,
    insert_output: InsertOutput,
    *,
    facts: Mapping[int, PartitionFacts],
    filtered_by_difference: bool,
) -> list[Counts]:
    """Publish a staged attempt exactly once, and return the counts of its batch.

    Args:
        ledger: The ledger's session; the output table is in the same database.
        attempt: The claim under which the rows were staged.
        insert_output: Inserts the staged rows and returns what it wrote.
        facts: What the broker reported for each stream after the read.
        filtered_by_difference: Whether a transform of the whole batch filters, so that records neither written nor
            rejected count as filtered.

    Raises:
        SupersededError: A newer attempt holds the batch, or another attempt has published it, or it is not in the
            ledger. Nothing was changed.
        NeedsOperatorError: The counts do not add up: offsets are missing. Nothing was changed.
        RetryableError: The ledger did not answer, and a look-up showed that the batch is not published. Or another
            batch has taken some of its offsets.
    """
    with explained(attempt):
        try:
            with ledger.transaction():
                found = holder(ledger, attempt)
                if found is None:
                    make_visible(ledger, attempt, insert_output, facts, filtered_by_difference=filtered_by_difference)
        except CommitUnknownError:
            if not was_published(ledger, attempt):
                raise
            found = None
    if found is not None:
        raise refuse(ledger, attempt, found)
    return counts(ledger, attempt.batch_id)


def holder(ledger: Ledger, attempt: Attempt) -> str | None:
    """Lock the batch. Return None if this attempt holds it, else its state and the attempt that holds it.

    Raises:
        RetryableError: The ledger was migrated since this process began: it may have laws that this code does not know.
    """
    # Locked before any row is, as a migration does: until the end of the transaction none is applied.
    versions.require_same(ledger.rows("lock_release")[0]["n_applied"], str(attempt))
    batch = ledger.row("lock_batch", batch_id=attempt.batch_id)
    if batch is None:
        raise SupersededError(
            f"{attempt} was refused: its batch is not in the ledger: was the ledger restored to an earlier moment?",
            next_step="clear the whole run, so that its task `plan` asks this ledger",
            entry="batches-of-another-ledger",
        )
    if batch["state"] == "writing" and batch["attempt"] == attempt.attempt:
        return None
    return f"state {batch['state']}, held by attempt {batch['fence']} (try {batch['try_number']} of {batch['run_id']})"


def make_visible(
    ledger: Ledger,
    attempt: Attempt,
    insert_output: InsertOutput,
    facts: Mapping[int, PartitionFacts],
    *,
    filtered_by_difference: bool,
) -> None:
    """Do all that belongs to a publication, within the transaction of the caller, who has found the attempt to be the holder.

    Counts and rejects are those staged under `attempt.attempt_id`.
    """
    owners = _make_room(ledger, attempt)
    if attempt.kind is BatchKind.REDRIVE:
        redrives.check(ledger, attempt)
    written = insert_output(ledger)
    if attempt.kind is BatchKind.REDRIVE:
        redrives.settle(ledger, attempt, written.offsets)
    else:
        ledger.run("move_rejects", batch_id=attempt.batch_id, attempt_id=attempt.attempt_id)
    ledger.rows(
        "record_counts",
        batch_id=attempt.batch_id,
        attempt_id=attempt.attempt_id,
        filtered_by_difference=filtered_by_difference,
        written=json([{"stream_id": stream_id, "n_written": n} for stream_id, n in written.n_written.items()]),
        facts=json({str(stream_id): {"log_start": f.log_start, "end": f.end} for stream_id, f in facts.items()}),
    )
    if not ledger.rows("publish_batch", batch_id=attempt.batch_id, attempt=attempt.attempt):
        raise RuntimeError(f"{attempt}: the batch changed under its own lock")
    if attempt.kind is not BatchKind.REDRIVE:
        ledger.run("cover_batch", batch_id=attempt.batch_id)
    _supersede(ledger, attempt, owners)
    ledger.run("end_attempt", attempt=attempt.attempt, outcome="published", problem=None)
    ledger.run("clear_staging", batch_id=attempt.batch_id)


def _make_room(ledger: Ledger, attempt: Attempt) -> list[int]:
    """Take the ranges from their owners: a backfill from holes, a replay from batches. Return those batches.

    Two replays of the same offsets take turns on the batches that own them. The second one finds the first one as
    owner.
    """
    if attempt.kind not in {BatchKind.BACKFILL, BatchKind.REPLAY}:
        return []
    locked: list[int] | None = None
    while locked != (owners := [row["batch_id"] for row in ledger.rows("lock_owners", batch_id=attempt.batch_id)]):
        locked = owners
    ledger.run("uncover_ranges", batch_id=attempt.batch_id)
    if attempt.kind is BatchKind.REPLAY:
        ledger.run("replace_rejects", batch_id=attempt.batch_id)
    return owners


def _supersede(ledger: Ledger, attempt: Attempt, owners: Sequence[int]) -> None:
    """Supersede batches that own nothing any more; record an event for each batch that keeps a part."""
    if not owners:
        return
    wholly = {row["batch_id"] for row in ledger.rows("supersede_batches", batch_ids=list(owners))}
    for owner in sorted(set(owners) - wholly):
        events.record(ledger, "supersede partly", pipeline=attempt.pipeline, batch_id=owner, by=attempt.batch_id)


def was_published(ledger: Ledger, attempt: Attempt) -> bool:
    """Look up, on a new connection, whether this attempt's COMMIT took effect.

    Compares the attempt's uuid and not the transaction status: after a crash Postgres may use a transaction id again.
    If the lost COMMIT is still running on the server, it holds the batch's row lock, and the look-up waits for it.
    """
    ledger.reconnect()
    with ledger.transaction():
        batch = ledger.row("lock_batch", batch_id=attempt.batch_id)
    return bool(
        batch and batch["attempt"] == attempt.attempt and batch["state"] in {"published", "advanced", "superseded"}
    )


def counts(ledger: Ledger, batch_id: int) -> list[Counts]:
    """Return the counts of a published batch, in stream order."""
    with ledger.transaction():
        rows = ledger.rows("list_ranges", batch_id=batch_id)
    return [
        Counts(
            stream_id=row["stream_id"],
            label=f"{row['topic']}/{row['partition']} [{row['start_offset']}, {row['end_offset']})",
            n_read=row["n_read"],
            n_written=row["n_written"],
            n_rejected=row["n_rejected"],
            n_filtered=row["n_filtered"],
            n_gap=row["n_gap"],
        )
        for row in rows
    ]
