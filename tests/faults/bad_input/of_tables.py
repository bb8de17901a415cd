"""Records that are decoded without an error, but that the table or the transform refuses."""

from dataclasses import replace
from json import dumps
from random import Random

from faults.bad_input.fates import Case, Class, Filtered, Rejected
from faults.bad_input.good import Change, each, fields_class, kept, record

OVERFLOW = Rejected("store", "numeric field overflow")
NO_UUID = Rejected("store", "column u: badly formed UUID")
HEX = "123456781234567812345678123456"
U = "12345678-1234-5678-1234-567812345678"


def texts(column: str, *values: str) -> tuple[Change, ...]:
    return each(column, *map(dumps, values))


def acting(act: str, **rest: str) -> Change:
    """Return a change of field `act`, which makes the transform do that."""
    return Change({"act": f'"{act}"', **rest})


def filtered(rng: Random) -> Case:
    return replace(record(rng, acting("filter")), typed=Filtered())


CLASSES = [
    fields_class("a CHECK that is broken", *each("i4", "13"), fate=Rejected("store", "violates check constraint")),
    fields_class("a CHECK that raises", *each("i8", "0"), fate=Rejected("store", "division by zero")),
    fields_class("a CHECK that gives up", *each("i8", "-1"), fate=Rejected("store", "the function refuses -1")),
    fields_class(
        "longer than varchar(5)",
        *texts("code", "sixsix", "é" * 6, "x" * 3000),
        fate=Rejected("store", "value too long for type"),
    ),
    fields_class(
        "longer than varchar(5) by blanks",
        *texts("code", "five  ", "fives "),
        fate=Rejected("store", "column code: value too long"),
    ),
    fields_class("a generated column that raises", *each("i2", "-77"), fate=Rejected("store", "division by zero")),
    fields_class(
        "a trigger that raises", *texts("code", "raise"), fate=Rejected("store", "the trigger itself gives up")
    ),
    fields_class(
        "a trigger that leaves the row out", *texts("code", "leave"), fate=Rejected("store", "left the row out")
    ),
    fields_class(
        "a foreign key that leads nowhere",
        *texts("code", "alien"),
        fate=Rejected(
            "store", 'violates foreign key constraint "typed_asked_fkey": Key (asked)=(alien) is not present'
        ),
    ),
    fields_class("a foreign key that leads somewhere", *kept("code", {'"known"': "known"})),
    fields_class("as long as varchar(5)", *kept("code", {'"fives"': "fives", '"ééééé"': "ééééé", '""': ""})),
    fields_class("beyond numeric(6,1)", *each("n", "123456.5", "-100000", "12345678.0"), fate=OVERFLOW),
    fields_class("finer than numeric(6,1)", *each("n", "1.25", "0.0001"), fate=Rejected("store", "column n: ")),
    fields_class(
        "nested too deep for jsonb",
        *texts("doc", "[" * 50_000, "[" * 100_000, '{"a":' * 50_000),
        fate=Rejected("store", "stack depth"),
    ),
    fields_class(
        "no JSON for jsonb",
        *texts("doc", "{bad", "", "NaN", "{'a': 1}", "[1,]", "nul"),
        fate=Rejected("store", "invalid input syntax for type json"),
    ),
    fields_class(
        "U+0000 for jsonb",
        *texts("doc", '"\\u0000"', '{"a": "x\\u0000"}'),
        fate=Rejected("store", "column doc: unsupported Unicode escape"),
    ),
    fields_class(
        "half surrogates for jsonb",
        *texts("doc", '"\\ud800"', '"\\udc00"'),
        fate=Rejected("store", "invalid input syntax for type json"),
    ),
    fields_class(
        "numbers beyond jsonb", *texts("doc", "1e131073", '{"a": -1e999999}'), fate=Rejected("store", "overflow")
    ),
    fields_class(
        "what jsonb takes",
        *kept("doc", {dumps('{"a": 1, "a": 2}'): '{"a": 2}', dumps("1e5"): "100000", dumps(" null "): "null"}),
        *kept("doc", {dumps("[" * 1000 + "]" * 1000): "[" * 1000 + "]" * 1000, dumps("-0.0"): "0.0"}),
    ),
    fields_class(
        "UUIDs of every form",
        *kept("u", {f'"{text}"': U for text in (U, U.upper(), "{" + U + "}", U.replace("-", ""))}),
    ),
    fields_class(
        "what only Python takes for a UUID",
        *texts("u", f"0x{HEX}", f"1_{HEX}", f" {HEX}1", f"+{HEX}1", "\uff11" * 32),
        fate=NO_UUID,
    ),
    fields_class(
        "no UUID", *texts("u", "", "x", U[:-1], f"urn:uuid:{U}", U + "\n", "{" + U, "' OR 1=1 --"), fate=NO_UUID
    ),
    Class(name="filtered by the transform", draw=filtered),
    fields_class("two rows", Change({"act": '"two"'}, second={})),
    fields_class(
        "two rows, one refused", acting("two, one refused"), fate=Rejected("store", "violates check constraint")
    ),
    fields_class(
        "the transform raises",
        acting("raise"),
        fate=Rejected("transform", r"ValueError: asked to raise \x1b[31m %s {} \ud800"),
    ),
    fields_class(
        "the transform raises without words", acting("speechless"), fate=Rejected("transform", "SpeechlessError")
    ),
    fields_class("the transform returns nothing", acting("nothing"), fate=Rejected("transform", "AttributeError: ")),
    fields_class("the transform returns fewer columns", acting("columns"), fate=Rejected("transform", "KeyError: ")),
    fields_class("the transform returns no record", acting("homeless"), fate=Rejected("transform", "KeyError: ")),
    fields_class("the transform returns other types", acting("types"), fate=Rejected("transform", "ArrowInvalid: ")),
    fields_class(
        "the transform forges the record", acting("forge", i4="13"), fate=Rejected("store", "violates check constraint")
    ),
    fields_class(
        "the transform makes no text",
        acting("garbage"),
        fate=Rejected("store", 'invalid byte sequence for encoding "UTF8"'),
    ),
    fields_class("the transform runs out of stack", acting("recurse"), fate=Rejected("transform", "RecursionError: ")),
]
