"""Heads: where each stream is read next. Only `advance` moves them, only forward, only over published batches."""

from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run


def advance_published(ledger: Ledger, pipeline: str) -> list[int]:
    """Move the heads over what is published and over holes, as far as they go, and return the batches that are through by that.

    A live batch whose offsets do not begin at the heads stays published: one before it is not published yet. Two walks at once take turns.
    """
    with ledger.transaction():
        return walk(ledger, pipeline)


def walk(ledger: Ledger, pipeline: str) -> list[int]:
    """The same, within a transaction that has more to do."""
    waiting = ledger.rows("list_published_batches", pipeline=pipeline)
    advanced: list[int] = []
    moved = True
    # Once is not enough: a batch planned late for offsets that somebody gave up has a higher id than those that wait behind it.
    while moved:
        moved = bool(ledger.rows("pass_coverage", pipeline=pipeline))
        for batch in list(waiting):
            if batch["kind"] == "live" and not _move_heads(ledger, batch["batch_id"]):
                continue
            ledger.rows("advance_batch", batch_id=batch["batch_id"])
            advanced.append(batch["batch_id"])
            waiting.remove(batch)
            moved = True
    return advanced


def _move_heads(ledger: Ledger, batch_id: int) -> bool:
    """All heads of the batch or none, but for those of streams that have retired: nobody reads on there."""
    ledger.run("begin_move")
    moved = ledger.rows("move_heads", batch_id=batch_id)
    if len(moved) == sum(not row["retired"] for row in ledger.rows("list_ranges", batch_id=batch_id)):
        ledger.run("keep_move")
        return True
    ledger.run("undo_move")
    return False


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
