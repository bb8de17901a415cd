"""Check takeovers.

A living writer keeps its batch: another one waits until it has ended or fallen silent. Otherwise all its work would
be done again. And a batch that was planned a moment ago is left to its run: if each plan abandoned what the previous
one had planned, nothing would ever be loaded.
"""

from faults.memory import MemoryDatabase
from faults.memory.database import SECOND
from faults.memory.rows import Batch, Event, Range, Stream
from faults.simulation.simulated_kafka import SimulatedKafka
from tideline.flow.surveying import LATEST_WINS

SILENT_SECONDS = 60
"""Seconds without a heartbeat after which a writer is presumed dead."""


def robbed(database: MemoryDatabase, old: Batch) -> str | None:
    """Return a problem if a transaction takes a batch from another attempt that was writing it, while that writer is not
    silent. A seal takes nothing: also a writer that was superseded may record what the sink has answered."""
    new, attempt = database.batches[old.batch_id], database.writing(old)
    own = f"{attempt.dag_id} {attempt.run_id} {attempt.task_id}"
    is_taken = (new.state, new.attempt) != (old.state, old.attempt)
    silent = (database.clock - attempt.heartbeat_at) / SECOND
    if not is_taken or new.state == "published" or database.actor == own or silent > SILENT_SECONDS:
        return None
    return f"{database.actor} has taken batch {old.batch_id}, which is {new.state} now, from {own}, silent for {silent:.0f} s"


def hurried(database: MemoryDatabase, kafka: SimulatedKafka, event: Event) -> str | None:
    """Return a problem if a readable batch was abandoned in favour of newer records before its run had time to begin."""
    if event.action != "abandon" or event.detail.get("reason") != LATEST_WINS or event.from_state != "planned":
        return None
    assert event.batch_id is not None, event
    pieces = database.ranges[event.batch_id].values()
    if any(_is_gone(kafka, database.streams[piece.stream_id], piece) for piece in pieces):
        return None
    planned = min(found.at for found in database.events.values() if found.batch_id == event.batch_id)
    if (age := (event.at - planned) / SECOND) > SILENT_SECONDS:
        return None
    return f"{event.actor} has given batch {event.batch_id} up {age:.0f} s after it was planned, before its run could begin"


def _is_gone(kafka: SimulatedKafka, stream: Stream, piece: Range) -> bool:
    topic = kafka.cluster.topics.get(stream.topic)
    if topic is None or topic.topic_id != stream.topic_id or stream.partition >= len(topic.logs):
        return True
    return piece.start < topic.logs[stream.partition].start
