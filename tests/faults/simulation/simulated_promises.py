"""Check what a successful process has promised: an operator who reads its log trusts it.

The checks run directly after its last step, before any other process continues.
"""

from collections.abc import Sequence

from faults.actions import Abandon, Advance, Plan, Skip, Task
from faults.memory import MemoryDatabase
from tideline.domain.requests import NewRecords
from tideline.ledger.attempts import Writer
from tideline.ledger.reservations import Run

_WRITTEN = frozenset({"published", "advanced", "superseded", "abandoned"})
_FINISHED = frozenset({"advanced", "superseded", "abandoned"})


def given_to(database: MemoryDatabase, pipeline: str, run: Run | Writer) -> list[int]:
    """Return the batches that the ledger has given to a run."""
    return list(database.runs.get((pipeline, run.dag_id, run.run_id), ()))


def unwritten(database: MemoryDatabase, batch_ids: Sequence[int], given: Sequence[int]) -> list[str]:
    """Return the batches that a finished job should have written and did not; `given` are the batches of its run."""
    return _not_of_run(batch_ids, given, "a write") or _not_in(database, batch_ids, _WRITTEN, "a write has ended well")


def kept(
    database: MemoryDatabase, pipeline: str, task: Task, before: Sequence[int], result: list[int] | None
) -> list[str]:
    """Return the broken promises of a task; `before` are the batches that its run had when the task began."""
    match task:
        case Plan():
            return _of_plan(database, task, before, result or [], given_to(database, pipeline, task.run))
        case Advance():
            batch_ids = before if task.batch_ids is None else task.batch_ids
            given = given_to(database, pipeline, task.run)
            return _not_of_run(batch_ids, given, "an advance") or _not_in(
                database, batch_ids, _FINISHED, "an advance has ended well"
            )
        case Abandon():
            return _not_in(database, [task.batch_id], {"abandoned"}, "an abandon has ended well")
        case Skip():
            piece = task.piece
            streams = [stream for stream in database.streams.values() if stream.pipeline == pipeline]
            here = [stream for stream in streams if stream.partition == piece.partition]
            if any(database.is_covered(s.stream_id, piece.offsets.start, piece.offsets.end) for s in here):
                return []
            return [f"a skip of {piece} has ended well, and nothing accounts for all of these offsets"]
        case _:
            return []


def _not_of_run(batch_ids: Sequence[int], given: Sequence[int], what: str) -> list[str]:
    """Return the batches that a run got from Airflow and the ledger does not know as the run's own, as after a
    restore."""
    return [
        f"{what} has ended well, and batch {batch_id} is not of its run"
        for batch_id in batch_ids
        if batch_id not in given
    ]


def _of_plan(
    database: MemoryDatabase, plan: Plan, before: Sequence[int], result: Sequence[int], given: Sequence[int]
) -> list[str]:
    if unknown := set(result) - set(given):
        return [f"a plan gave batches {sorted(unknown)}, and the ledger has not given them to the run"]
    is_same = list(result) == list(before) or any(database.batches[batch].state == "abandoned" for batch in before)
    if isinstance(plan.request, NewRecords) and before and not is_same:
        return [f"a run that had batches {list(before)} was given {list(result)}"]
    return []


def _not_in(
    database: MemoryDatabase, batch_ids: Sequence[int], states: frozenset[str] | set[str], when: str
) -> list[str]:
    found = [database.batches[batch_id] for batch_id in batch_ids]
    return [f"{when}, and batch {batch.batch_id} is {batch.state}" for batch in found if batch.state not in states]
