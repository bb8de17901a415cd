"""Check that a stream stops only for a reason in Kafka. Else healthy streams might stop and wait for an operator."""

from faults.memory import Log, MemoryDatabase
from faults.memory.batches import OPEN, unsealed
from faults.memory.database import SECOND
from faults.memory.rows import Batch, Stream
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.takeover_checks import SILENT_SECONDS


def unfounded(database: MemoryDatabase, kafka: SimulatedKafka, stream: Stream, *, folds: bool) -> str | None:
    """Explain why Kafka gives no reason for the stop; None if it does. A pipeline that `folds` records stops where partitions are added.

    To be called only while Kafka is unchanged since the process that stops the stream looked at it.
    """
    topic = kafka.cluster.topics.get(stream.topic)
    if kafka.cluster.cluster_id != stream.cluster_id:
        return "another cluster answers: that stops nothing"
    if topic is None or topic.topic_id != stream.topic_id or stream.partition >= len(topic.logs):
        return None
    if folds and _has_grown(database, stream, len(topic.logs)):
        return None
    log = topic.logs[stream.partition]
    planned = [ranges[stream.stream_id].end for ranges in database.ranges.values() if stream.stream_id in ranges]
    covered = [piece.end for piece in database.coverage[stream.stream_id].values()]
    reached = max([stream.next_offset, *planned, *covered])
    if log.start > stream.next_offset or log.stable_end < reached or _replaced(log, stream, reached):
        return None
    return f"the log holds [{log.start}, {log.stable_end}), and nothing else was ever planned or read"


def _has_grown(database: MemoryDatabase, stream: Stream, n_partitions: int) -> bool:
    """Return whether the stream was begun after others of its topic, or before them, where their number is no multiple of the former one."""
    begun = {
        event.stream_id: event.at
        for event in database.events.values()
        if event.action == "start"
        and event.stream_id is not None
        and event.pipeline == stream.pipeline
        and database.streams[event.stream_id].topic_id == stream.topic_id
    }
    before = [one for one, at in begun.items() if at < max(begun.values())]
    return bool(before) and (stream.stream_id not in before or bool(n_partitions % len(before)))


def _replaced(log: Log, stream: Stream, reached: int) -> bool:
    """Return whether a leader later than that of the last look has reassigned an offset that the log held then."""
    held = reached if stream.accepted_end is None else min(reached, stream.accepted_end)
    return stream.leader_epoch is not None and any(e > stream.leader_epoch for e in log.epochs[log.start : held])


def presumed(database: MemoryDatabase, stream: Stream) -> str | None:
    """Return a problem if a writer has stopped a stream of a batch that is not its own any more: an operator may have
    resolved the stream since."""
    if not database.actor.endswith(" write"):
        return None
    for batch in database.batches.values():
        if batch.state == "writing" and stream.stream_id in database.ranges[batch.batch_id]:
            attempt = database.writing(batch)
            if database.actor == f"{attempt.dag_id} {attempt.run_id} {attempt.task_id}":
                return None
    return f"{database.actor} writes no batch that holds it"


def held_back(database: MemoryDatabase, *, pipeline: str) -> list[str]:
    """Return problems for open batches that hold a stopped stream and that no process writes: each of their tries
    would fail, and the other streams wait for them.

    A batch that may be committed outside is left to a write, which settles or seals it."""
    return [
        f"batch {batch.batch_id} holds a stream that has stopped, and {database.actor} has not given it up"
        for batch in database.batches.values()
        if batch.pipeline == pipeline
        and batch.kind == "live"
        and batch.state in OPEN
        and any(database.streams[stream_id].state != "active" for stream_id in database.ranges[batch.batch_id])
        and not _may_live(database, batch)
        and not unsealed(database, batch.batch_id, batch.sealed_fence)
    ]


def _may_live(database: MemoryDatabase, batch: Batch) -> bool:
    """Return whether the writer of a batch may still be alive.

    Time can pass while a plan runs, because waiting processes let it pass. So it is certain only some time later that
    the writer was silent when the plan looked.
    """
    if batch.state != "writing":
        return False
    return database.clock - database.writing(batch).heartbeat_at <= 2 * SILENT_SECONDS * SECOND
