"""What is asked for, drawn: a number, an offset, a wish."""

from datetime import datetime
from random import Random

from faults.actions import TOPIC
from faults.operations import ABatch, SomeRejects, Wish
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Window
from windows import at

ANY = 60
"""Numbers that are taken by remainder are drawn below it: it has many divisors."""


def number(random: Random) -> int:
    """Of any of the things that there are."""
    return random.randrange(ANY)


def offset(random: Random) -> int:
    """In a log, or a little behind it."""
    return random.randint(0, 24)


def flag(random: Random, share: float = 0.5) -> bool:
    """True so often."""
    return random.random() < share


def new_records(random: Random) -> Wish:
    """All, or those of an hour."""
    if flag(random, 0.7):
        return NewRecords()
    until = offset(random)
    return NewRecords(until=at(until), since=at(max(0, until - 10)))


def moment(random: Random) -> datetime:
    """At which a record may have been written."""
    return at(offset(random))


def window(random: Random, *, replace: float = 0.5) -> Wish:
    """Some minutes."""
    start = offset(random)
    return Window(start=at(start), end=at(start + random.randint(1, 20)), replace=flag(random, replace))


def ranges(random: Random, *, replace: float = 0.7) -> Wish:
    """Of one or two partitions."""
    pieces = [
        NamedRange(TOPIC, partition, OffsetRange(start, start + random.randint(1, 15)))
        for partition in random.sample(range(3), random.choice((1, 1, 2)))
        for start in [offset(random)]
    ]
    return Ranges(ranges=tuple(pieces), replace=flag(random, replace))


def batch(random: Random, *, replace: float = 0.7) -> Wish:
    """One of those that there are."""
    return ABatch(number(random), replace=flag(random, replace))


def rejects(random: Random) -> Wish:
    """All, or those of a batch."""
    return SomeRejects(None if flag(random, 0.7) else number(random))


def loaded(random: Random) -> Wish:
    """What has been loaded, most likely, once more."""
    end = random.randint(3, 14)
    whole = Window(start=at(0), end=at(end), replace=True)
    piece = NamedRange(TOPIC, random.randrange(2), OffsetRange(random.randint(0, 3), end + 1))
    return random.choice((whole, whole, Ranges(ranges=(piece,), replace=True), ABatch(number(random), replace=True)))
