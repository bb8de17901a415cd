"""What a DAG run works on, and what it has published."""

from datetime import UTC, datetime, timedelta

from faults.memory.batches import THROUGH
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import dangling
from faults.memory.registry import Rows, verb

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")


def _given(db: MemoryDatabase, pipeline: str, dag_id: str, run_id: str) -> dict[int, int]:
    return db.runs.get((pipeline, dag_id, run_id), {})


@verb
def join_run(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str, batch_id: int) -> int:
    run = (pipeline, dag_id, run_id)
    if run not in db.runs:
        db.put(db.runs, run, {})
    if batch_id in db.runs[run]:
        return 0
    db.put(db.runs[run], batch_id, len(db.runs[run]))
    if batch_id not in db.batches:
        raise dangling("run_batch", "run_batch_batch_id_fkey")
    if pipeline not in db.pipelines:
        raise dangling("run_batch", "run_batch_pipeline_fkey")
    return 1


@verb
def list_run_batches(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    given = _given(db, pipeline, dag_id, run_id)
    in_order = sorted(given, key=given.__getitem__)
    return [{"batch_id": batch_id} for batch_id in in_order if db.batches[batch_id].state != "abandoned"]


@verb
def list_in_the_way(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    found = []
    for batch_id in sorted(_given(db, pipeline, dag_id, run_id)):
        batch = db.batches[batch_id]
        if batch.state not in THROUGH:
            newest = None if batch.attempt is None else db.attempts[batch.attempt]
            names = ("dag_id", "run_id", "task_id", "try_number", "problem")
            tried = {name: newest and getattr(newest, name) for name in names}
            found.append({"batch_id": batch_id, "state": batch.state, **tried})
    return found


@verb
def list_written_batches(db: MemoryDatabase, *, pipeline: str, dag_id: str, run_id: str) -> Rows:
    given = _given(db, pipeline, dag_id, run_id)
    found = []
    for attempt in db.attempts.values():
        if (
            attempt.batch_id in given
            and attempt.outcome == "published"
            and (attempt.dag_id, attempt.run_id) == (dag_id, run_id)
        ):
            found += _loaded(db, attempt.batch_id, attempt.ended_at)
    return sorted(found, key=lambda row: (row["batch_id"], row["topic"], row["partition"]))


def _loaded(db: MemoryDatabase, batch_id: int, ended_at: int) -> Rows:
    return [
        {
            "batch_id": batch_id,
            "kind": db.batches[batch_id].kind,
            "published_at": _EPOCH + timedelta(microseconds=ended_at),
            "topic": db.streams[stream_id].topic,
            "partition": db.streams[stream_id].partition,
            "start_offset": piece.start,
            "end_offset": piece.end,
            **{name: getattr(piece, name) for name in _COUNTS},
        }
        for stream_id, piece in db.ranges[batch_id].items()
    ]
