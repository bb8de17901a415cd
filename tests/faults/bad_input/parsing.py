"""Decoding alone, without Kafka, Spark and Postgres, which allows far more records: properties that hold for any bytes.

Each record is kept or rejected exactly once. Nothing raises. A record has the same result in a batch as alone.
An unchanged record has its class's fate.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from faults.bad_input.classes import BAD
from faults.bad_input.fates import Case, Rejected
from faults.bad_input.good import COLUMNS, GOOD
from reject_reason import DecodeValues, decoder
from tideline.domain.columns import parse_type
from tideline.domain.reject_reasons import MAX_REASON
from tideline.formats.format import Decoded

MOST_IN_A_BATCH = 400
SMALL = 20_000
"""Size in bytes. Larger values are not mutated again: a million records must fit into an hour."""
PIECES = [
    b"",
    b"}",
    b"{",
    b'"',
    b"\\",
    b",",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3",
    b"e-99",
    b"0e",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"-",
    b"}}{",
    b"1" * 40,
]


@dataclass(frozen=True, slots=True)
class Parsed:
    """Statistics of a run."""

    records: int
    kept: int
    classes: Counter[str] = field(default_factory=Counter)


def parse(seed: int, count: int) -> Iterator[Parsed]:
    """Decode and check batches of records drawn from `seed` on, one seed per batch, until there are `count` records; yield statistics of each.

    Raises:
        AssertionError: A property does not hold; the message has the batch's seed.
    """
    decode = decoder("json", {name: parse_type(kind) for name, kind in COLUMNS.items()})
    done = 0
    while done < count:
        batch = list(drawn(Random(seed)))
        kept = judged(decode, batch, f"seed {seed}")
        yield Parsed(len(batch), kept, Counter(name for name, _, _ in batch))
        done += len(batch)
        seed += 1


def drawn(rng: Random) -> Iterator[tuple[str, Case, bytes | None]]:
    """Yield the records of one batch: class, case, and the value, which is the case's or a mutation of it."""
    common = [one for one in BAD if not one.rare]
    for _ in range(rng.randrange(1, MOST_IN_A_BATCH)):
        one = rng.choice(common) if rng.random() < 0.8 else GOOD
        case = one.draw(rng)
        yield one.name, case, case.value if rng.random() < 0.5 else mutated(rng, case.value)


def mutated(rng: Random, value: bytes | None) -> bytes | None:
    """Return the value with pieces cut out, doubled, or inserted."""
    if value is None or len(value) > SMALL:
        return value
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(value) + 1)
        end = min(len(value), start + rng.randrange(12))
        middle = rng.choice([value[start:end] * 2, rng.choice(PIECES), rng.randbytes(rng.randrange(4))])
        value = value[:start] + middle + value[end:]
    return value


def judged(decode: DecodeValues, batch: Sequence[tuple[str, Case, bytes | None]], where: str) -> int:
    """Check one batch; return how many records were kept."""
    values = [value for _, _, value in batch]
    together = decode(pa.array(values, pa.binary()))
    places = together.kept.to_pylist()
    assert sorted([*places, *together.rejected]) == list(range(len(batch))), f"{where}: not each record once"
    assert together.table.num_rows == len(places), f"{where}: {together.table.num_rows} rows of {len(places)} records"
    alone = [decode(pa.array([value], pa.binary())) for value in values]
    for place, (name, case, value) in enumerate(batch):
        one = alone[place]
        assert _same(together, place, one), f"{where}: record {place}, {name}: alone it fares otherwise: {value!r}"
        if value == case.value:
            rejected = isinstance(case.typed, Rejected) and case.typed.step == "decode"
            assert rejected == bool(one.rejected), f"{where}: record {place}, {name}: {one.rejected}: {value!r}"
    assert together.table.equals(pa.concat_tables([one.table for one in alone])), (
        f"{where}: values differ from those alone"
    )
    return len(places)


def _same(together: Decoded, place: int, alone: Decoded) -> bool:
    said = together.rejected.get(place)
    return said == alone.rejected.get(0) and (said is None or (said.isprintable() and 0 < len(said) <= MAX_REASON))
