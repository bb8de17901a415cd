"""Streams and their heads, which move only forward and only over covered offsets."""

from typing import Any
from uuid import UUID

from faults.memory import events
from faults.memory.database import MemoryDatabase
from faults.memory.refusals import check, dangling, duplicate, law, unmet
from faults.memory.registry import Rows, verb
from faults.memory.rows import Stream

_ACTIONS = {"stopped": "stop", "active": "resume", "retired": "retire"}
FOREVER = 2**63


def of_pipeline(db: MemoryDatabase, pipeline: str) -> list[Stream]:
    """Return all streams of a pipeline, by id."""
    return [stream for stream in db.streams.values() if stream.pipeline == pipeline]


@verb
def start_stream(
    db: MemoryDatabase,
    *,
    pipeline: str,
    cluster_id: str,
    topic: str,
    topic_id: UUID,
    partition: int,
    start_offset: int,
    leader_epoch: int | None,
) -> Rows:
    stream_id = db.next_id("stream")
    place = (cluster_id, topic, topic_id, partition)
    stream = Stream(stream_id, pipeline, *place, start_offset, start_offset, "active", None, None, leader_epoch)
    if partition < 0 or start_offset < 0:
        raise check("stream", "stream_partition_check" if partition < 0 else "stream_start_offset_check", str(stream))
    if leader_epoch is not None and leader_epoch < 0:
        raise check("stream", "stream_leader_epoch_check", str(stream))
    identity = (pipeline, cluster_id, topic_id, partition)
    if any((s.pipeline, s.cluster_id, s.topic_id, s.partition) == identity for s in db.streams.values()):
        raise duplicate("stream_pipeline_cluster_id_topic_id_partition_key")
    db.put(db.streams, stream_id, stream)
    db.put(db.coverage, stream_id, {})
    db.put(db.reserved, stream_id, {})
    if pipeline not in db.pipelines:
        raise dangling("stream", "stream_pipeline_fkey")
    events.insert(db, "start", pipeline, stream_id=stream_id, to_state="active", detail={"start_offset": start_offset})
    return [{"stream_id": stream_id}]


def _update(db: MemoryDatabase, old: Stream, **changes: Any) -> None:
    new = old._replace(**changes)
    kept = ("next_offset", "accepted_end", "leader_epoch")
    if old.state == "retired" and (new.state != "stopped" or any(getattr(new, n) != getattr(old, n) for n in kept)):
        raise law(f"stream {old.stream_id} is retired: it never changes")
    if new.next_offset < old.next_offset:
        raise law(f"stream {old.stream_id}: the head never goes back (from {old.next_offset} to {new.next_offset})")
    if new.next_offset > old.next_offset and not db.is_covered(old.stream_id, old.next_offset, new.next_offset):
        raise unmet(
            f"stream {old.stream_id}: the head cannot pass unpublished offsets of [{old.next_offset}, {new.next_offset})"
        )
    if (new.state == "stopped") != (new.stopped_because is not None):
        raise check("stream", "stream_check1", str(new))
    if new.accepted_end is not None and new.accepted_end < 0:
        raise check("stream", "stream_accepted_end_check", str(new))
    if new.leader_epoch is not None and new.leader_epoch < 0:
        raise check("stream", "stream_leader_epoch_check", str(new))
    db.put(db.streams, old.stream_id, new)
    if new.state != old.state:
        events.insert(
            db,
            _ACTIONS[new.state],
            new.pipeline,
            stream_id=new.stream_id,
            from_state=old.state,
            to_state=new.state,
            detail={"because": new.stopped_because},
        )
    elif new.next_offset > old.next_offset:
        detail = {"from": old.next_offset, "to": new.next_offset}
        events.insert(db, "move head", new.pipeline, stream_id=new.stream_id, detail=detail)


def _update_where(db: MemoryDatabase, stream_id: int, fits: Any, **changes: Any) -> int:
    stream = db.streams.get(stream_id)
    if stream is None or not fits(stream):
        return 0
    _update(db, stream, **changes)
    return 1


@verb
def stop_stream(db: MemoryDatabase, *, stream_id: int, because: str) -> int:
    return _update_where(db, stream_id, lambda s: s.state == "active", state="stopped", stopped_because=because)


@verb
def resume_stream(db: MemoryDatabase, *, stream_id: int, accepted_end: int | None, leader_epoch: int | None) -> int:
    changes = {"state": "active", "stopped_because": None, "accepted_end": accepted_end}
    if leader_epoch is not None:
        changes["leader_epoch"] = leader_epoch
    return _update_where(db, stream_id, lambda s: s.state == "stopped", **changes)


@verb
def retire_stream(db: MemoryDatabase, *, stream_id: int) -> int:
    return _update_where(db, stream_id, lambda s: s.state != "retired", state="retired", stopped_because=None)


@verb
def bring_back_stream(db: MemoryDatabase, *, stream_id: int, because: str) -> int:
    return _update_where(db, stream_id, lambda s: s.state == "retired", state="stopped", stopped_because=because)


@verb
def keep_leader_epochs(db: MemoryDatabase, *, stream_ids: list[int], leader_epochs: list[int]) -> int:
    seen = dict(zip(stream_ids, leader_epochs, strict=True))
    return sum(_update_where(db, n, lambda _: True, leader_epoch=epoch) for n, epoch in seen.items())


@verb
def forget_cut(db: MemoryDatabase, *, stream_id: int) -> int:
    return _update_where(db, stream_id, lambda s: s.accepted_end is not None, accepted_end=None)


@verb
def pass_coverage(db: MemoryDatabase, *, pipeline: str) -> Rows:
    moved = []
    for stream in of_pipeline(db, pipeline):
        if stream.state == "retired":
            continue
        reached = stream.next_offset
        while pieces := db.covering(stream.stream_id, reached, reached + 1):
            reached = pieces[0].end
        if reached > stream.next_offset:
            _update(db, stream, next_offset=reached)
            moved.append({"stream_id": stream.stream_id})
    return moved


@verb
def list_streams(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [
        {
            "stream_id": s.stream_id,
            "cluster_id": s.cluster_id,
            "topic": s.topic,
            "topic_id": s.topic_id,
            "partition": s.partition,
            "start_offset": s.start_offset,
            "next_offset": s.next_offset,
            "accepted_end": s.accepted_end,
            "leader_epoch": s.leader_epoch,
            "state": s.state,
            "stopped_because": s.stopped_because,
            "reserved": _taken(db, s),
        }
        for s in of_pipeline(db, pipeline)
    ]


def _taken(db: MemoryDatabase, stream: Stream) -> list[list[int]]:
    """Return reserved ranges and holes at or above the head."""
    taken = [[r.start, r.end] for r in db.reserving(stream.stream_id, stream.next_offset, FOREVER)]
    covering = db.covering(stream.stream_id, stream.next_offset, FOREVER)
    return sorted(taken + [[c.start, c.end] for c in covering if c.hole is not None])


@verb
def list_heads(db: MemoryDatabase, *, pipeline: str) -> Rows:
    return [
        {"topic": s.topic, "partition": s.partition, "next_offset": s.next_offset}
        for s in of_pipeline(db, pipeline)
        if s.state != "retired"
    ]


@verb
def list_stopped_streams(db: MemoryDatabase, *, pipeline: str) -> Rows:
    stopped = [s for s in of_pipeline(db, pipeline) if s.state == "stopped"]
    names = ("stream_id", "topic", "partition", "next_offset", "stopped_because")
    return [{name: getattr(s, name) for name in names} for s in sorted(stopped, key=lambda s: (s.topic, s.partition))]
