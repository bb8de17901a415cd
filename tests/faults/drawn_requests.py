"""Draw the parts of requests from a random source: numbers, offsets, requests."""

from datetime import datetime
from random import Random

from faults.actions import TOPIC
from faults.operations import ABatch, DrawnRequest, SomeRejects
from given_topics.topics import at
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Window

ANY = 60
"""Upper bound of drawn numbers that are later taken modulo a count. It has many divisors, so the remainders are
evenly spread."""


def number(random: Random) -> int:
    """Draw the number of a batch, partition or process; it is taken modulo the count of existing ones."""
    return random.randrange(ANY)


def offset(random: Random) -> int:
    """Draw an offset inside a log, or slightly after its end."""
    return random.randint(0, 24)


def flag(random: Random, share: float = 0.5) -> bool:
    """Return True with probability `share`."""
    return random.random() < share


def new_records(random: Random) -> DrawnRequest:
    """Draw a request for new records: all of them, or at most those of ten minutes."""
    if flag(random, 0.7):
        return NewRecords()
    until = offset(random)
    return NewRecords(until=at(until), since=at(max(0, until - 10)))


def moment(random: Random) -> datetime:
    """Draw a time at which a record may have been written."""
    return at(offset(random))


def window(random: Random, *, replace: float = 0.5) -> DrawnRequest:
    """Draw a window of some minutes."""
    start = offset(random)
    return Window(start=at(start), end=at(start + random.randint(1, 20)), replace=flag(random, replace))


def ranges(random: Random, *, replace: float = 0.7) -> DrawnRequest:
    """Draw explicit ranges of one or two partitions."""
    pieces = [
        NamedRange(TOPIC, partition, OffsetRange(start, start + random.randint(1, 15)))
        for partition in random.sample(range(3), random.choice((1, 1, 2)))
        for start in [offset(random)]
    ]
    return Ranges(ranges=tuple(pieces), replace=flag(random, replace))


def batch(random: Random, *, replace: float = 0.7) -> DrawnRequest:
    """Draw a request for one existing batch."""
    return ABatch(number(random), replace=flag(random, replace))


def rejects(random: Random) -> DrawnRequest:
    """Draw a request for rejects: all of them, or those of one batch."""
    return SomeRejects(None if flag(random, 0.7) else number(random))


def loaded(random: Random) -> DrawnRequest:
    """Draw a request to load again offsets that have most likely been loaded already."""
    end = random.randint(3, 14)
    whole = Window(start=at(0), end=at(end), replace=True)
    piece = NamedRange(TOPIC, random.randrange(2), OffsetRange(random.randint(0, 3), end + 1))
    return random.choice((whole, whole, Ranges(ranges=(piece,), replace=True), ABatch(number(random), replace=True)))
