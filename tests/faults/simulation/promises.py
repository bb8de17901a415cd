"""What a process that ended well has promised: whoever reads its log goes home. Looked at when its last step is done, before anybody else goes on."""

from collections.abc import Sequence

from faults.memory import MemoryDatabase
from faults.moves import Abandon, Advance, Plan, Skip, Task
from tideline.ledger.reservations import Run

_WRITTEN = frozenset({"published", "advanced", "superseded", "abandoned"})
_THROUGH = frozenset({"advanced", "superseded", "abandoned"})


def given_to(database: MemoryDatabase, pipeline: str, run: Run) -> list[int]:
    """The batches that a run works on by now."""
    return list(database.runs.get((pipeline, run.dag_id, run.run_id), ()))


def unwritten(database: MemoryDatabase, batch_ids: Sequence[int]) -> list[str]:
    """After the job: batches that it was to write."""
    return _not_in(database, batch_ids, _WRITTEN, "a write has ended well")


def kept(
    database: MemoryDatabase, pipeline: str, task: Task, before: Sequence[int], result: list[int] | None
) -> list[str]:
    """What a task has promised and not kept; `before` are the batches that its run had when it began."""
    match task:
        case Plan():
            unknown = set(result or ()) - set(given_to(database, pipeline, task.run))
            return (
                [f"a plan gave batches {sorted(unknown)}, and the ledger has not given them to the run"]
                if unknown
                else []
            )
        case Advance():
            return _not_in(database, before, _THROUGH, "an advance has ended well")
        case Abandon():
            return _not_in(database, [task.batch_id], {"abandoned"}, "an abandon has ended well")
        case Skip():
            piece = task.piece
            here = [stream for stream in database.streams.values() if stream.partition == piece.partition]
            if any(database.is_covered(s.stream_id, piece.offsets.start, piece.offsets.end) for s in here):
                return []
            return [f"a skip of {piece} has ended well, and nothing accounts for all of these offsets"]
        case _:
            return []


def _not_in(
    database: MemoryDatabase, batch_ids: Sequence[int], states: frozenset[str] | set[str], when: str
) -> list[str]:
    found = [database.batches[batch_id] for batch_id in batch_ids]
    return [f"{when}, and batch {batch.batch_id} is {batch.state}" for batch in found if batch.state not in states]
