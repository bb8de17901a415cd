"""Pipelines that a decision has taken out of sight."""

from faults.memory import events
from faults.memory.batches import OPEN
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import law
from faults.memory.registry import verb


@verb
def set_retired(db: MemoryDatabase, *, pipeline: str, retired: bool) -> int:
    known = db.pipelines.get(pipeline)
    if known is None or (known.retired_at is not None) == retired:
        return 0
    if retired and not db.reason:
        raise law(f"pipeline {pipeline} is not retired without a reason")
    if retired and any(batch.pipeline == pipeline and batch.state in OPEN for batch in db.batches.values()):
        raise law(f"pipeline {pipeline} is not retired: batches of it are open")
    db.put(db.pipelines, pipeline, known._replace(retired_at=db.now if retired else None))
    events.insert(db, "retire pipeline" if retired else "bring back pipeline", pipeline)
    return 1
