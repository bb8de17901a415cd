"""Draws the records to send: good ones mixed with all other classes, in an order that depends on the seed."""

from collections.abc import Iterator
from random import Random

from faults.bad_input.classes import BAD
from faults.bad_input.fates import Case
from faults.bad_input.good import GOOD

GOOD_SHARE = 0.92
RECORDS_A_RARE_ONE = 10_000
"""One record of each large class per so many records."""


def mixed(seed: int, count: int) -> Iterator[tuple[str, Case]]:
    """Yield records with the names of their classes: each class equally often, the large ones a few times."""
    rng = Random(seed)
    rare = [one for one in BAD if one.rare] * max(1, count // RECORDS_A_RARE_ONE)
    common = [one for one in BAD if not one.rare]
    n_bad = max(len(common), count - round(count * GOOD_SHARE) - len(rare))
    chosen = rare + [common[number % len(common)] for number in range(n_bad)]
    chosen += [GOOD] * (count - len(chosen))
    rng.shuffle(chosen)
    for one in chosen:
        yield one.name, one.draw(Random(rng.getrandbits(64)))
