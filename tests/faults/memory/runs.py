"""The batches of a DAG run."""

from faults.memory.batches import FINISHED
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import dangling
from faults.memory.registry import Rows, verb


def _given(db: MemoryDatabase, pipeline: str, dag_id: str, run_id: str) -> dict[int, int]:
    return db.runs.get((pipeline, dag_id, run_id), {})


@verb
def join_run(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str, batch_ids: list[int]) -> int:
    run = (pipeline, dag_id, run_id)
    if run not in db.runs:
        db.put(db.runs, run, {})
    new = [batch_id for batch_id in dict.fromkeys(batch_ids) if batch_id not in db.runs[run]]
    for batch_id in new:
        db.put(db.runs[run], batch_id, len(db.runs[run]))
    if any(batch_id not in db.batches for batch_id in new):
        raise dangling("run_batch", "run_batch_batch_id_fkey")
    if new and pipeline not in db.pipelines:
        raise dangling("run_batch", "run_batch_pipeline_fkey")
    return len(new)


@verb
def list_run_batches(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    given = _given(db, pipeline, dag_id, run_id)
    in_order = sorted(given, key=given.__getitem__)
    return [{"batch_id": batch_id} for batch_id in in_order if db.batches[batch_id].state != "abandoned"]


@verb
def list_given_batches(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    return [{"batch_id": batch_id} for batch_id in sorted(_given(db, pipeline, dag_id, run_id))]


@verb
def find_given_batch(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str, batch_id: int) -> Rows:
    return [{"batch_id": batch_id}] if batch_id in _given(db, pipeline, dag_id, run_id) else []


@verb
def list_in_the_way(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    found = []
    for batch_id in sorted(_given(db, pipeline, dag_id, run_id)):
        batch = db.batches[batch_id]
        if batch.state not in FINISHED:
            newest = None if batch.attempt is None else db.attempts[batch.attempt]
            names = ("dag_id", "run_id", "task_id", "try_number", "problem")
            tried = {name: newest and getattr(newest, name) for name in names}
            found.append({"batch_id": batch_id, "state": batch.state, **tried})
    return found
