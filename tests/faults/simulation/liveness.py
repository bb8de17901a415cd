"""Check liveness: before any operator decides, runs have loaded all of every healthy stream."""

from faults.memory import MemoryDatabase
from faults.simulation.world import World

_FOR_A_PERSON = "tideline abandon"
"""Part of the problem text of a batch that an operator has to abandon: it was planned when gaps were not allowed, or
it was requested explicitly and its records are gone."""


def held_up(world: World) -> list[str]:
    """Return the active streams that have not been read to their end. Return none if a batch that an operator has to
    abandon is in the way, or what a rewind has left and Kafka no longer holds."""
    database = world.database
    if world.unreadable() or any(_waits_for_a_person(database, batch_id) for batch_id in world.failed_batches()):
        return []
    return [
        f"{stream} is healthy, and its log ends at {end}"
        for stream in database.streams.values()
        if stream.state == "active" and stream.next_offset < (end := world.kafka.end(stream))
    ]


def _waits_for_a_person(database: MemoryDatabase, batch_id: int) -> bool:
    """Return whether a batch waits for an operator. Replays and re-drives do not count: they never hold up new
    records."""
    batch = database.batches[batch_id]
    if batch.attempt is None or batch.kind not in {"live", "backfill"}:
        return False
    return _FOR_A_PERSON in (database.attempts[batch.attempt].problem or "")


def unnoticed(world: World) -> list[str]:
    """Return the active streams whose newest records were lost and replaced by others: what was read of them is not
    what Kafka now holds.

    If retention has deleted all records before that head, Kafka gives no evidence of the loss any more.
    """
    return [
        f"{stream} was cut to offset {cut.end} while the head was {cut.head}, and it has gone on"
        for stream_id, cut in world.losses.unnoticed.items()
        for stream in [world.database.streams[stream_id]]
        if stream.state == "active" and world.kafka.start(stream) < cut.head
    ]
