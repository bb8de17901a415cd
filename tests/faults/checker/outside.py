"""Batches of outside sinks: each is visible once, by the attempt that the ledger names, and only if it is published.

The checks of commits are skipped where the output is a table in the ledger's database.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from faults.checker.facts import Violation
from faults.checker.index import OPEN, PUBLISHED, Index


def settled(index: Index) -> Iterator[Violation]:
    """Yield outside batches that do not name the attempt whose commit they are, and other batches that name one."""
    for batch in index.found.batches:
        own = {attempt.attempt for attempt in index.attempts.get(batch.batch_id, ())}
        wanted = batch.outside and batch.state in PUBLISHED
        if wanted != (batch.written_by is not None) or (wanted and batch.written_by not in own):
            kind = "outside" if batch.outside else "inside"
            yield Violation(
                "settled", f"batch {batch.batch_id}", f"is {kind} and {batch.state}, written by {batch.written_by}"
            )


def committed(index: Index) -> Iterator[Violation]:
    """Yield batches that are published and not committed, or by another attempt; and those that are visible and given up."""
    if index.found.commits is None:
        return
    commits = {commit.batch_id: commit for commit in index.found.commits}
    for batch_id, n_commits in Counter(commit.batch_id for commit in index.found.commits).items():
        if n_commits > 1:
            yield Violation("committed", f"batch {batch_id}", f"is committed {n_commits} times")
    for batch in index.found.batches:
        commit = commits.get(batch.batch_id)
        if not batch.outside:
            wrong = "is inside, and committed outside" if commit else ""
        elif batch.state in PUBLISHED:
            by = commit and commit.attempt
            wrong = "" if by == batch.written_by else f"is written by {batch.written_by}, and committed by {by}"
        else:
            wrong = f"is {batch.state}, and its rows are visible" if commit and batch.state not in OPEN else ""
        if wrong:
            yield Violation("committed", f"batch {batch.batch_id}", wrong)


def moving(index: Index) -> Collection[int]:
    """Return the streams of batches whose rows are visible and that are open: their rejects, counts and coverage follow."""
    committed = {commit.batch_id for commit in index.found.commits or ()}
    pending = {batch_id for batch_id in committed & index.batches.keys() if index.batches[batch_id].state in OPEN}
    return {piece.stream_id for piece in index.found.ranges if piece.batch_id in pending}


def unsettled(index: Index) -> Iterator[Violation]:
    """Yield open batches whose rows are visible. Checked only after all runs have finished."""
    for commit in index.found.commits or ():
        batch = index.batches.get(commit.batch_id)
        if batch is None or batch.state in OPEN:
            state = "not in the ledger" if batch is None else batch.state
            yield Violation("unsettled", f"batch {commit.batch_id}", f"is {state}, and its rows are visible")
