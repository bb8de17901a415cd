"""Text with a special meaning in SQL, in COPY, on a terminal or in a format string; and text that Postgres cannot store."""

from json import dumps
from random import Random

from faults.bad_input.fates import Rejected
from faults.bad_input.good import Change, each, fields_class, kept, shown_text
from faults.bad_input.of_numbers import NO_JSON

NUL = Rejected("decode", "s: text holds U+0000")
INJECTIONS = [
    "'; DROP TABLE ads.canary; --",
    '"; DROP SCHEMA ads CASCADE; --',
    "$1 $$ $tag$ ::regclass",
    "%s %(x)s %% {} {0} {x!r} {{ params }}",
    "${jndi:ldap://127.0.0.1/a}",
    "E'\\x41'",
]
COPIED = ["\\.", "\\N", "\\", "a\tb\\tc", "\\N\t\\N\n\\.\n", '1,"two ""2""",3\r\n', "\x1e\x1f\x7f", "\x01\x02\x03"]
SHOWN = [
    "\x1b[2J\x1b[31mred",
    "line\nbatch 7: published",
    "\u202egnp.exe",
    "a\u2028b\u2029c\x85d",
    "\ufeffbom",
    "zero\u200bwidth",
]
ODD = ["\U0010ffff", "\uffff\ufdd0", "e\u0301", "\U0001f468\u200d\U0001f469", "\u0130\u00df", "", " ", "\xa0"]


def said(*texts: str) -> list[Change]:
    """Return the texts as JSON, both with escapes and without."""
    return [
        Change({"s": dumps(text, ensure_ascii=escaped)}, {"s": shown_text(text)})
        for text in texts
        for escaped in (True, False)
    ]


def long(rng: Random) -> Change:
    """Return text longer than an index entry, in a column without an index."""
    text = "".join(rng.choices("0123456789abcdef\u00e9", k=rng.randrange(2_704, 50_000)))
    return said(text)[1]


CLASSES = [
    fields_class("text that is SQL or a template", *said(*INJECTIONS)),
    fields_class("text that COPY or CSV would read", *said(*COPIED)),
    fields_class("text that a terminal would obey", *said(*SHOWN)),
    fields_class("text at the edges of Unicode", *said(*ODD)),
    fields_class("long text without an index", long),
    fields_class(
        "surrogate pairs", *kept("s", {'"\\ud83d\\ude00"': shown_text("😀"), '"\\uD83D\\uDE00"': shown_text("😀")})
    ),
    fields_class(
        "half surrogate pairs",
        *each("s", '"\\ud800"', '"\\udc00"', '"\\ude00\\ud83d"', '"a\\ud83d b"', '"\\ud83d\\u0041"'),
        Change(more='"z": "\\ud800"'),
        Change(more='"\\udfff": 1'),
        fate=NO_JSON,
    ),
    fields_class("U+0000 as an escape", *each("s", '"\\u0000"', '"a\\u0000b"', '"\\u0000\\u0000"'), fate=NUL),
    fields_class("U+0000 in an undeclared field", Change(more='"z": "\\u0000"'), Change(more='"\\u0000": 1')),
    fields_class("no escapes", *each("s", '"\\x41"', '"\\u00e"', '"\\U0001f600"', '"\\\n"', '"\\\'"'), fate=NO_JSON),
    fields_class(
        "a control character in text", *each("s", '"a\nb"', '"a\tb"', '"a\rb"', '"a\x1fb"', '"a\x1bb"'), fate=NO_JSON
    ),
]
