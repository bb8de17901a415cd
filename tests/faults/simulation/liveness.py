"""A stream that is well waits for nobody: before people decide anything, runs have loaded all of it."""

from faults.memory import MemoryDatabase
from faults.simulation.world import World

_FOR_A_PERSON = "tideline abandon"
"""In the problem of a batch that somebody has to give up: it was planned when gaps were not allowed, or asked for by a person and is gone."""


def held_up(world: World) -> list[str]:
    """Active streams that have not been read to their end, with no batch in the way that a person has to give up."""
    database = world.database
    if any(_waits_for_a_person(database, batch_id) for batch_id in world.failed_batches()):
        return []
    return [
        f"{stream} is well, and its log ends at {end}"
        for stream in database.streams.values()
        if stream.state == "active" and stream.next_offset < (end := world.kafka.end(stream))
    ]


def _waits_for_a_person(database: MemoryDatabase, batch_id: int) -> bool:
    """Nobody's replay or re-drive holds new records up."""
    batch = database.batches[batch_id]
    attempt = database.attempts.get(batch.attempt) if batch.kind in {"live", "backfill"} else None
    return attempt is not None and _FOR_A_PERSON in (attempt.problem or "")


def unnoticed(world: World) -> list[str]:
    """Active streams whose newest records were lost and replaced by others: what was read of them before is not what Kafka holds.

    Where retention has deleted all that lies before that head, Kafka says nothing about it any more.
    """
    return [
        f"{stream} was cut to offset {cut.end} while the head was {cut.head}, and it has gone on"
        for stream_id, cut in world.losses.unnoticed.items()
        for stream in [world.database.streams[stream_id]]
        if stream.state == "active" and world.kafka.start(stream) < cut.head
    ]
