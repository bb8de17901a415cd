"""What a sample of records does not decide, as sentences for the author. They quote no value: values may be personal data."""

from typing import NamedTuple


class Doubt(NamedTuple):
    """Something that a sample does not decide."""

    subject: str
    """A field, such as `items[].price`, or a part of the declaration."""
    seen: str
    chosen: str
    change: str
    """What to do if the choice is wrong."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.seen}. Chosen: {self.chosen}. {self.change}."


def left_out(subject: str, seen: str, advice: str) -> Doubt:
    """Return the doubt about a field that is not declared."""
    return Doubt(subject, seen, "left out: it is ignored", advice)


def counted(count: int, word: str) -> str:
    """Return a number with its noun: `1 value`, `2 values`."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
