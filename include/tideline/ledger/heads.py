"""Heads: where each stream is read next. Only `advance` moves them, only forward, only over what is accounted for."""

from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


def advance_published(ledger: Ledger, pipeline: str) -> list[int]:
    """Move the heads over what is published and over holes, as far as they go, and return the batches that are finished by that, oldest first.

    A live batch stays published until all of its heads have passed it. Two walks at once take turns.
    """
    with ledger.transaction():
        return walk(ledger, pipeline)


def walk(ledger: Ledger, pipeline: str) -> list[int]:
    """The same, within a transaction that has more to do.

    Each head moves by itself. If those of a batch waited for each other, two batches could wait for each other for ever: one planned late, for
    offsets that somebody gave up in one stream and for new ones in another, and one planned before it.
    """
    waiting = [row["batch_id"] for row in ledger.rows("list_published_batches", pipeline=pipeline)]
    ledger.rows("pass_coverage", pipeline=pipeline)
    return sorted(row["batch_id"] for row in ledger.rows("advance_batches", batch_ids=waiting))


def in_the_way(ledger: Ledger, pipeline: str, run: Run) -> list[str]:
    """One line for each batch of `run` that is not advanced, with its state and who tried last."""
    with ledger.transaction():
        rows = ledger.rows("list_in_the_way", pipeline=pipeline, dag_id=run.dag_id, run_id=run.run_id)
    return [
        f"batch {row['batch_id']} is {row['state']}"
        + (
            f", last tried by {row['task_id']} try {row['try_number']} of {row['run_id']}"
            if row["run_id"]
            else ", not tried yet"
        )
        + (f": {row['problem'].splitlines()[0]}" if row["problem"] else "")
        for row in rows
    ]


def stopped_streams(ledger: Ledger, pipeline: str) -> list[tuple[str, int, str]]:
    """Each stream of the pipeline that waits for a person: label, head, and what was found."""
    with ledger.transaction():
        rows = ledger.rows("list_stopped_streams", pipeline=pipeline)
    return [(f"{row['topic']}/{row['partition']}", row["next_offset"], row["stopped_because"]) for row in rows]
