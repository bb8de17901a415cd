"""Claims of outputs: which pipeline writes where."""

import re

from faults.memory import events
from faults.memory.batches import OPEN, unsealed
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import check, dangling, law, overlap
from faults.memory.registry import Rows, verb
from faults.memory.rows import ClaimedOutput

_PLACES = {"postgres": r"[^.]+\.[^.]+", "kafka": r"[^/]+/[^/]+", "delta": r"(?s)(/|s3://).*"}
_LONGEST = 1_000


def _others(db: MemoryDatabase, new: ClaimedOutput) -> list[ClaimedOutput]:
    return [
        other
        for key, other in db.claimed.items()
        if (other.kind, other.place) == (new.kind, new.place)
        and key != (new.pipeline, new.purpose)
        and not (other.shared and new.shared)
    ]


def _is_written(db: MemoryDatabase, pipeline: str) -> bool:
    return any(batch.pipeline == pipeline and batch.state == "writing" for batch in db.batches.values())


def _may_have_committed(db: MemoryDatabase, pipeline: str) -> bool:
    """Return whether an attempt at a failed batch has an intent that no seal has ruled out."""
    return any(
        batch.pipeline == pipeline and batch.state == "failed" and unsealed(db, batch.batch_id, batch.sealed_fence)
        for batch in db.batches.values()
    )


def _has_loaded(db: MemoryDatabase, pipeline: str) -> bool:
    loaded = {"writing", "published", "advanced", "superseded"}
    return _may_have_committed(db, pipeline) or any(
        batch.pipeline == pipeline and batch.state in loaded for batch in db.batches.values()
    )


def _refuse_move(db: MemoryDatabase, old: ClaimedOutput) -> None:
    where = f"output {old.place} of pipeline {old.pipeline} does not move"
    if _is_written(db, old.pipeline):
        raise law(f"{where}: a batch of it is being written")
    if _may_have_committed(db, old.pipeline):
        raise law(f"{where}: a batch may have been committed to it")
    if not db.reason and _has_loaded(db, old.pipeline):
        raise law(f"{where} without a reason: it has been loaded")


def _put(db: MemoryDatabase, new: ClaimedOutput) -> None:
    old = db.claimed.get((new.pipeline, new.purpose))
    moves = old is not None and (old.kind, old.place) != (new.kind, new.place)
    if old is not None and moves and new.purpose == "rows":
        _refuse_move(db, old)
    if new.kind not in _PLACES:
        raise check("claimed_output", "output_has_a_kind", str(new))
    if not re.fullmatch(_PLACES[new.kind], new.place) or len(new.place.encode()) > _LONGEST:
        raise check("claimed_output", "place_fits_its_kind", str(new))
    if new.purpose != "rows" and (new.purpose, new.kind, new.shared) != ("rejects", "kafka", True):
        raise check("claimed_output", "output_has_a_purpose", str(new))
    if _others(db, new):
        raise overlap("outputs_are_shared_by_consent")
    db.put(db.claimed, (new.pipeline, new.purpose), new)
    detail = {"purpose": new.purpose, "kind": new.kind, "place": new.place, "shared": new.shared}
    if old is not None and moves:
        events.insert(
            db, "move output", new.pipeline, detail={**detail, "from_kind": old.kind, "from_place": old.place}
        )
    else:
        events.insert(db, "claim output", new.pipeline, detail=detail)
    if new.pipeline not in db.pipelines:
        raise dangling("claimed_output", "claimed_output_pipeline_fkey")


def _of(db: MemoryDatabase, pipeline: str) -> list[ClaimedOutput]:
    return sorted((one for one in db.claimed.values() if one.pipeline == pipeline), key=lambda one: one.purpose)


@verb
def view_claims(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [
        {
            "purpose": one.purpose,
            "kind": one.kind,
            "place": one.place,
            "shared": one.shared,
            "has_loaded": _has_loaded(db, pipeline),
        }
        for one in _of(db, pipeline)
    ]


@verb
def view_output_writers(db: MemoryDatabase, *, kind: str, place: str) -> Rows:
    found = [one for one in db.claimed.values() if (one.kind, one.place) == (kind, place)]
    rows = [{"pipeline": one.pipeline, "purpose": one.purpose, "shared": one.shared} for one in found]
    return sorted(rows, key=lambda row: (row["pipeline"], row["purpose"]))


@verb
def claim_output(db: MemoryDatabase, *, pipeline: str, purpose: str, kind: str, place: str, shared: bool) -> Rows:
    new = ClaimedOutput(pipeline, purpose, kind, place, shared)
    found = [{"found": "other", **other._asdict()} for other in _others(db, new) if other.pipeline != pipeline]
    old = db.claimed.get((pipeline, purpose))
    if old is not None and purpose == "rows" and (old.kind, old.place) != (kind, place) and _has_loaded(db, pipeline):
        found.append({"found": "moves", **old._asdict()})
    if not found and old != new:
        _put(db, new)
    return sorted(found, key=lambda row: (row["found"] != "moves", row["pipeline"], row["purpose"]))


@verb
def move_output(db: MemoryDatabase, *, pipeline: str, kind: str, place: str, shared: bool) -> Rows:
    old = db.claimed.get((pipeline, "rows"))
    if old is None:
        return []
    if (old.kind, old.place) != (kind, place):
        _put(db, ClaimedOutput(pipeline, "rows", kind, place, shared))
    return [{"kind": old.kind, "place": old.place}]


@verb
def free_outputs(db: MemoryDatabase, *, pipeline: str) -> Rows:
    claimed = _of(db, pipeline)
    for one in claimed:
        _free(db, one)
    return [{"purpose": one.purpose, "kind": one.kind, "place": one.place} for one in claimed]


@verb
def free_rejects(db: MemoryDatabase, *, pipeline: str, place: str | None) -> int:
    freed = [one for one in _of(db, pipeline) if one.purpose == "rejects" and one.place != place]
    for one in freed:
        _free(db, one)
    return len(freed)


def _free(db: MemoryDatabase, one: ClaimedOutput) -> None:
    is_open = any(batch.pipeline == one.pipeline and batch.state in OPEN for batch in db.batches.values())
    if one.purpose == "rows" and is_open:
        raise law(f"output {one.place} of pipeline {one.pipeline} is not free: batches of it are open")
    db.remove(db.claimed, (one.pipeline, one.purpose))
    detail = {"purpose": one.purpose, "kind": one.kind, "place": one.place}
    events.insert(db, "free output", one.pipeline, detail=detail)
