"""Good records of the pipeline with a column of every type, and the changes that make one unusual.

Fields are JSON text and columns are what Postgres shows. Both are written out, so that no parser is needed for the expected result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import md5
from json import dumps
from random import Random
from uuid import UUID

from faults.bad_input.fates import Case, Class, Rejected, Shown, Written

COLUMNS = {
    "id": "bigint",
    "s": "string",
    "b": "boolean",
    "i2": "smallint",
    "i4": "int",
    "i8": "bigint",
    "f4": "float",
    "f8": "double",
    "d": "decimal(12,4)",
    "n": "decimal(12,4)",
    "e": "decimal(38,10)",
    "t": "timestamp",
    "day": "date",
    "tags": "array<string>",
    "place": "struct<lat: double, name: string>",
    "doc": "string",
    "u": "string",
    "code": "string",
    "act": "string",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A change that makes a good record unusual."""

    fields: Mapping[str, str | None] = field(default_factory=dict)
    """JSON text by field; None leaves the field out."""
    shown: Shown = field(default_factory=dict)
    """The columns that differ from the good record's."""
    more: str = ""
    """Further members of the object."""
    second: Shown | None = None
    """The columns of a second row of the record that differ from the first row's."""


def good_fields(rng: Random) -> tuple[dict[str, str], dict[str, str | None]]:
    """Return fields of a good record and the expected columns."""
    number, text = rng.randrange(10**9), rng.choice(["plain", "with, comma", "ünï", "日本", "😀", "a b"])
    eighth = f"{rng.randrange(-999, 999)}.{rng.choice(['125', '375', '625', '875'])}"  # exact in 32 bits
    cents = f"{rng.randrange(10**7)}.{rng.randrange(10**4):04}"
    moment = f"20{rng.randrange(10, 40)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
    clock = f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{rng.randrange(10**5):05}7"
    truth, word, ident = rng.choice(["true", "false"]), f"w{rng.randrange(1000)}", str(UUID(int=rng.getrandbits(128)))
    fields = {
        **dict.fromkeys(("id", "i8"), str(number)),
        "i2": str(number % 1000),
        "i4": str(number + 14),
        **dict.fromkeys(("f4", "f8"), eighth),
        "d": cents,
        "n": f"{number % 10**5}.5",
        "e": f"{cents}000001",
        "s": dumps(text, ensure_ascii=rng.random() < 0.5),
        "b": truth,
        "t": f'"{moment}T{clock}Z"',
        "day": f'"{moment}"',
        "tags": f'["{word}", "b"]',
        "place": f'{{"lat": {eighth}, "name": "{word}"}}',
        "doc": dumps(f'{{"a": {number}}}'),
        "u": f'"{ident}"',
        "code": f'"{word}"',
    }
    as_they_are = {name: fields[name] for name in ("id", "b", "i2", "i4", "i8", "f4", "f8", "d", "n", "e")}
    texts: dict[str, str | None] = {
        "s": shown_text(text),
        "t": f"{moment} {clock}",
        "day": moment,
        "tags": f"{{{word},b}}",
        "lat": eighth,
    }
    return fields, as_they_are | texts | {"name": word, "doc": f'{{"a": {number}}}', "u": ident, "code": word}


def shown_text(text: str) -> str:
    """Return what column `s` shows: a digest, because some texts are long."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def record(rng: Random, change: Change, fate: Rejected | None = None) -> Case:
    """Return a good record with `change` applied; it is written unless another fate is given."""
    fields, shown = good_fields(rng)
    fields |= {name: text for name, text in change.fields.items() if text is not None}
    members = [f'"{name}": {text}' for name, text in fields.items() if change.fields.get(name, text) is not None]
    rng.shuffle(members)
    value = "{" + ", ".join(members + [change.more] * bool(change.more)) + "}"
    key = f"k{rng.randrange(1000)}".encode()
    first = {**shown, "item": "0", **change.shown}
    rows = (first,) if change.second is None else (first, {**first, "item": "1", **change.second})
    return Case(key=key, value=value.encode(), typed=fate or Written(rows))


def fields_class(name: str, *changes: Change | Callable[[Random], Change], fate: Rejected | None = None) -> Class:
    """Return a class of good records, each with one of the changes."""

    def draw(rng: Random) -> Case:
        change = rng.choice(changes)
        return record(rng, change if isinstance(change, Change) else change(rng), fate)

    return Class(name=name, draw=draw)


def each(column: str, *texts: str) -> tuple[Change, ...]:
    """Return changes of one field, for records that are rejected."""
    return tuple(Change({column: text}) for text in texts)


def kept(column: str, shown: dict[str, str]) -> tuple[Change, ...]:
    """Return changes of one field for records that are written; `shown` is by JSON text the shown column."""
    return tuple(Change({column: text}, {column: found}) for text, found in shown.items())


GOOD = Class(name="good", draw=lambda rng: record(rng, Change()))
