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
    attempt = database.attempts.get(database.batches[batch_id].attempt)
    return attempt is not None and _FOR_A_PERSON in (attempt.problem or "")
