"""Move the heads: the next offset to read of each stream.

Only `advance` moves them, only forward, only over what is accounted for.
"""

from tideline.ledger import reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


def advance_published(ledger: Ledger, pipeline: str) -> list[int]:
    """Move the heads over what is published and over holes, as far as possible.

    Return the batches completed by this call, oldest first. A live batch stays published until all of its heads have
    passed it. Two concurrent calls take turns, and so do a call and a plan, which lock batches and streams in different
    orders and could deadlock otherwise. A pipeline that was never planned is left alone.
    """
    with ledger.transaction():
        return walk(ledger, pipeline) if reservations.lock_known(ledger, pipeline) else []


def walk(ledger: Ledger, pipeline: str) -> list[int]:
    """Do what `advance_published` does, within the transaction of the caller, who has locked the pipeline.

    Each head moves independently. If the heads of a batch waited for each other, two batches could wait for each other
    for ever: a batch that was planned late, for abandoned offsets of one stream and for new offsets of another, and a
    batch that was planned before it.
    """
    waiting = [row["batch_id"] for row in ledger.rows("list_published_batches", pipeline=pipeline)]
    ledger.rows("pass_coverage", pipeline=pipeline)
    return sorted(row["batch_id"] for row in ledger.rows("advance_batches", batch_ids=waiting))


def of_pipeline(ledger: Ledger, pipeline: str) -> dict[tuple[str, int], int]:
    """Return the heads of a pipeline by topic and partition, without those of retired streams."""
    with ledger.transaction():
        rows = ledger.rows("list_heads", pipeline=pipeline)
    return {(row["topic"], row["partition"]): row["next_offset"] for row in rows}


def in_the_way(ledger: Ledger, pipeline: str, run: Run) -> list[str]:
    """Return one line for each unfinished batch of `run`: its state, and the task that last tried to write it."""
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
    """Return each stopped stream of the pipeline, which waits for an operator: label, head, and what was found."""
    with ledger.transaction():
        rows = ledger.rows("list_stopped_streams", pipeline=pipeline)
    return [(f"{row['topic']}/{row['partition']}", row["next_offset"], row["stopped_because"]) for row in rows]
