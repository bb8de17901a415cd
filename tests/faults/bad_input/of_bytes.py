"""Values that are not a JSON object, or only for a lenient parser."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import replace
from random import Random

from faults.bad_input.fates import NO_UTF8, NUL, TOMBSTONE, Case, Class, Rejected
from faults.bad_input.good import Change, record
from faults.bad_input.of_numbers import NO_JSON

Make = Callable[[Random], bytes]
NO_OBJECT = Rejected("decode", "expected a JSON object, found ")
DEEP = Rejected("decode", "not valid JSON: ")


def good(rng: Random) -> bytes:
    return record(rng, Change()).value or b""


def values(name: str, *made: bytes | Make, typed: Rejected = NO_JSON, text: Rejected | None = None) -> Class:
    """Return a class of values that the JSON pipeline rejects; the text pipeline rejects them only if `text` is given."""

    def draw(rng: Random) -> Case:
        one = rng.choice(made)
        return Case(key=b"k", value=one if isinstance(one, bytes) else one(rng), typed=typed, text=text)

    return Class(name=name, draw=draw)


def dressed(name: str, *dress: Callable[[bytes], bytes]) -> Class:
    """Return a class of good values in another encoding, which are written."""

    def draw(rng: Random) -> Case:
        case = record(rng, Change())
        return replace(case, value=rng.choice(dress)(case.value or b""))

    return Class(name=name, draw=draw)


def inside(*contents: bytes) -> list[Make]:
    """Return values with these bytes within the text of an otherwise good object; once as the name of a field."""
    return [
        *(lambda _, content=content: b'{"id": 1, "s": "a%sb"}' % content for content in contents),
        lambda rng: b'{"id": 1, "%s": 1}' % rng.choice(contents),
    ]


def cut(rng: Random) -> bytes:
    """Cut a record between two characters: a part of one is of another class, which is no text."""
    whole = good(rng).decode()
    return whole[: rng.randrange(1, len(whole))].encode()


def noise(rng: Random) -> bytes:
    return b"\x80" + rng.randbytes(rng.randrange(1, 200))


def framed(rng: Random) -> bytes:
    """Return Avro as Confluent's serializers write it: a zero, the schema's number in four bytes, the fields."""
    return b"\0" + rng.randrange(2**16).to_bytes(4, "big") + b"\x02\x06abc\xf6\x01\xff" + rng.randbytes(8)


CLASSES = [
    values("UTF-8 cut off", *inside(b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98"), b'{"id": 1, "s": "\xe2\x82', text=NO_UTF8),
    values(
        "UTF-8 that is too long", *inside(b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\xaf", b"\xc1\xbf"), text=NO_UTF8
    ),
    values(
        "UTF-8 beyond Unicode", *inside(b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe", b"\xff"), text=NO_UTF8
    ),
    values("surrogates in UTF-8", *inside(b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xed\xa0\xbd\xed\xb8\x80"), text=NO_UTF8),
    values("latin-1", *inside("ü".encode("latin-1"), "naïve".encode("latin-1"), b"\x93x\x94"), text=NO_UTF8),
    values("UTF-16", '{"id": 1}'.encode("utf-16"), '{"é": 1}'.encode("utf-16-be") + b"\xff", text=NO_UTF8),
    values("UTF-16 that is UTF-8 as well", '{"id": 1}'.encode("utf-16-le"), '{"id": 1}'.encode("utf-32-be"), text=NUL),
    values("a byte order mark", lambda rng: b"\xef\xbb\xbf" + good(rng)),
    values("a raw U+0000", *inside(b"\0"), lambda rng: good(rng) + b"\0", b"\0", b"\0\0{}", text=NUL),
    values("an empty value", b"", typed=Rejected("decode", "value is empty")),
    Class(
        name="a tombstone",
        draw=lambda _: Case(key=b"k", value=None, typed=Rejected("decode", "value is null"), text=TOMBSTONE),
    ),
    values("white space alone", b" ", b"\n", b"\t\r\n "),
    values(
        "white space that JSON has not",
        lambda rng: b"\xc2\xa0" + good(rng),
        lambda rng: good(rng) + b"\xe2\x80\xa8",
        lambda rng: b"\x0b" + good(rng),
    ),
    values("null, a scalar or text", b"null", b"5", b"-0.0", b"true", b'"{}"', b'"a"', b' "x" ', typed=NO_OBJECT),
    values("an array", b"[]", b"[{}]", b'[{"id": 1}]', b"[[[]]]", typed=NO_OBJECT),
    values("two objects in one value", b"{}{}", b"{} {}", b"{},{}", b'{"id": 1}\n{"id": 2}', b'{"id": 1}\x1e{"id": 2}'),
    values("a trailing comma", b'{"id": 1,}', b'{"id": 1, "tags": ["a",]}', b'{"id": 1},', b"{,}"),
    values("something behind the object", b'{"id": 1}x', b'{"id": 1}}', b'{"id": 1};', b'{"id": 1} 5', b'{"id": 1}\\n'),
    values("comments", b'{"id": 1} // one', b'/* one */ {"id": 1}', b'{"id": 1 # one\n}', b'{"id": /**/ 1}'),
    values(
        "JSON as JavaScript has it",
        b"{'id': 1}",
        b"{id: 1}",
        b'{"id": 0x1}',
        b'{"id": undefined}',
        b'{"id": 1, "s": `a`}',
    ),
    values("JSON as Python has it", b'{"id": None}', b"{'id': 1, 's': u'a'}", b'{"b": True}', b'{"id": (1,)}'),
    values("signs out of place", b'{"id" 1}', b'{"id": 1 "s": "a"}', b'{"id":}', b"{: 1}", b"{1: 1}", b'{"id": 1:2}'),
    values("cut off", cut),
    values(
        "a literal end of line in text", b'{"id": 1, "s": "a\nb"}', b'{"id": 1, "s": "a\r\nb"}', b'{"id": 1, "a\nb": 1}'
    ),
    # Concatenated with their neighbours some of these would be complete rows, and would forge others.
    values(
        "pieces that join",
        b'{"o":',
        b'"id": 1}}',
        b'{"s": "',
        b'"}',
        b"{",
        b"}",
        b"}{",
        b"}}{",
        b'"',
        b",",
        b"[",
        b"]",
        b"\\",
    ),
    values(
        "pieces that forge",
        b'{"id":7}}{"id":8,"x":',
        b'{"id":1},"x":{}',
        b'{"id":1}\n{"id":',
        b'{"a":1}]},{"rows":[{"id":9}',
    ),
    values(
        "nested 10,000 and 100,000 deep",
        *(b'{"z": %s}' % (b"[" * n + b"]" * n) for n in (10_000, 100_000)),
        b'{"z": ' * 10_000,
        b"[" * 100_000,
        typed=DEEP,
    ),
    values(
        "nested 1,030 deep",
        b'{"z": %s}' % (b"[" * 1030 + b"]" * 1030),
        b'{"a":' * 1030 + b"1" + b"}" * 1030,
        typed=DEEP,
    ),
    values("lines of CSV or COPY", b"1,2,3", b'"a","b"', b"1\t\\N\ta", b"\\.", b"\\N", b"id,s\n1,a\n"),
    values(
        "SQL", b"'; DROP TABLE ads.canary; --", b"1); DELETE FROM tideline.batch; --", b"COPY ads.canary FROM STDIN"
    ),
    values(
        "XML, YAML or a log",
        b"<a id='1'/>",
        b"id: 1\ns: a\n",
        b"2026-01-01T00:00:00Z INFO tideline: batch 7 is published",
        b"---\n- 1",
    ),
    values("Avro in Confluent's frame", framed, text=NO_UTF8),
    values("compressed", lambda rng: gzip.compress(good(rng)), lambda rng: zlib.compress(good(rng)), text=NO_UTF8),
    values("noise", noise, text=NO_UTF8),
    values("a control sequence", b"\x1b[2J\x1b[1;1H", b"\x1b]0;title\x07", b"\r\rbatch 7: published", b"\x07" * 50),
    dressed(
        "white space around and between",
        lambda v: b" \r\n\t%s\n\n" % v,
        lambda v: v.replace(b'"id": ', b'\r\n"id"\t:\n '),
        lambda v: v.replace(b"{", b"{\n ", 1),
    ),
    dressed("a megabyte of white space", lambda v: b" " * 300_000 + v + b"\n" * 300_000),
]
