"""Keys, headers and timestamps of every kind, and large records."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from faults.bad_input.fates import Case, Class, Rejected
from faults.bad_input.good import Change, record, shown_text
from faults.bad_input.of_numbers import NO_JSON

NO_TEXT = Rejected("transform", "ArrowInvalid: Invalid UTF8")
NUL = Rejected("store", 'column k: invalid byte sequence for encoding "UTF8": 0x00')
TOO_LONG = Rejected("store", "exceeds btree version 4 maximum 2704")
BEYOND_A_PAGE = Rejected("store", "index row ")
MEGABYTES_10 = 10_000_000
ODD_HEADERS = (
    (b"", b""),
    (b"any", bytes(range(256))),
    (b"any", b"again"),
    (b"null", None),
    ('é\u2028\n"\\'.encode(), b"\xff"),
    (b"\x1b[31m", b"1"),
)


def keyed(name: str, key: bytes | Callable[[Random], bytes] | None, text: Rejected | None = None) -> Class:
    """Return a class of good records with this key: the text pipeline has it in an indexed column."""

    def draw(rng: Random) -> Case:
        return replace(record(rng, Change()), key=key(rng) if callable(key) else key, text=text)

    return Class(name=name, draw=draw)


def letters(size: int) -> Callable[[Random], bytes]:
    """Return text that compression cannot make smaller."""
    return lambda rng: "".join(
        rng.choices("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.", k=size)
    ).encode()


def around(name: str, *, rare: bool = False, by_hand: bool = False, **parts: object) -> Class:
    """Return a class of records, good and bad, with these headers or timestamp: a reject must keep them."""

    def draw(rng: Random) -> Case:
        case = record(rng, Change())
        if rng.random() < 0.7:
            case = replace(case, value=b"{bad", typed=NO_JSON)
        chosen: dict[str, Any] = {
            part: rng.choice(made) if isinstance(made, list) else made for part, made in parts.items()
        }
        return replace(case, by_hand=by_hand, **chosen)

    return Class(name=name, draw=draw, rare=rare)


def huge(rng: Random) -> Case:
    """Return a record with 10 MB of text: its neighbours must not be affected."""
    letter = rng.choice("xyz")
    return record(rng, Change({"s": f'"{letter * MEGABYTES_10}"'}, {"s": shown_text(letter * MEGABYTES_10)}))


CLASSES = [
    keyed("no key", None),
    keyed("an empty key", b""),
    keyed(
        "a key that is no text",
        lambda rng: rng.choice([b"\xff", b"\xc3", b"k\xed\xa0\x80", bytes(range(256))]),
        NO_TEXT,
    ),
    keyed("a key with U+0000", lambda rng: rng.choice([b"\0", b"a\0b"]), NUL),
    keyed("a key as long as an index takes", letters(2_600)),
    keyed("a key longer than an index takes", letters(2_712), TOO_LONG),
    keyed("a key longer than a page", lambda rng: letters(rng.randrange(8_200, 40_000))(rng), BEYOND_A_PAGE),
    keyed("a long key that shrinks", b"x" * 50_000),
    keyed("a key that is SQL", b"'; DROP TABLE ads.canary; -- %s {} \\. \\N\t\"\n"),
    around("odd headers", headers=[ODD_HEADERS, ODD_HEADERS[:1], ODD_HEADERS[1:3], ODD_HEADERS[3:]]),
    around("a thousand headers", headers=tuple((b"h%d" % number, b"%d" % number) for number in range(1_000))),
    around("a header of a megabyte", headers=((b"large", bytes(range(256)) * 4_000),), rare=True),
    around(
        "names of headers that are no text",
        headers=[((b"\xff", b"1"),), ((b"a\0b", b"1"), (b"\0", None))],
        by_hand=True,
    ),
    around("timestamps about 1970", timestamp_ms=[0, -1, 1, -5, -999], by_hand=True),
    around("timestamps of the last century but one", timestamp_ms=[-2_208_988_800_000, -1_000_000_000_001]),
    around(
        "timestamps before the railways",
        timestamp_ms=[-2_208_988_800_001, -12_219_292_800_001, -(10**14), -9_000_000_000_000_000],
    ),
    around(
        "timestamps of far futures", timestamp_ms=[253_402_300_800_000, 9_000_000_000_000_000, 9_223_372_036_854_775]
    ),
    Class(name="10 MB of good text", draw=huge, rare=True),
    Class(
        name="10 MB of nothing good",
        draw=lambda rng: Case(key=b"k", value=rng.choice([b"x", b"[", b"9"]) * MEGABYTES_10, typed=NO_JSON),
        rare=True,
    ),
]

BEYOND_SPARK = around(
    "timestamps that Spark cannot hold",
    timestamp_ms=[1_795_599_646_000_000_000, 2**62, 9_223_372_036_854_776, -9_223_372_036_854_776],
    by_hand=True,
)
"""Not in the list: Spark refuses all records of a range with such a one, and the others of the list are read by Spark as a rule."""
