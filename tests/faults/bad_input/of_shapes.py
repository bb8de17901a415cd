"""Objects whose shape is not the declared one: duplicate keys, other case, missing and unknown keys, arrays in place of objects and vice versa."""

from faults.bad_input.fates import Rejected
from faults.bad_input.good import Change, each, fields_class, kept, shown_text

TWICE = Rejected("decode", "is there twice")
NOT_NULL = Rejected("store", "violates not-null constraint")
NESTED = {depth: "[" * depth + "]" * depth for depth in (200, 1000, 1020)}

CLASSES = [
    fields_class(
        "a declared key twice",
        Change({"i4": "1"}, more='"i4": 1'),
        Change({"i4": "1"}, more='"i4": null'),
        Change({"i4": "1"}, more='"\\u0069\\u0034": 2'),
        Change({"s": '"a"'}, more='"s": 5'),
        fate=TWICE,
    ),
    fields_class(
        "a key twice in a struct",
        *each("place", '{"lat": 1, "lat": 1}'),
        fate=Rejected("decode", "place.lat: is there twice"),
    ),
    fields_class("an unknown key twice", Change(more='"z": 1, "z": "x", "z": {"z": 1, "z": 2}')),
    fields_class(
        "keys in another case", Change(more='"ID": "x", "S": 5, "Place": []'), Change(more='"İd": 1, "\uff494": "x"')
    ),
    fields_class(
        "its id in another case",
        Change({"id": None}, more='"ID": 5'),
        Change({"id": None}, more='"Id": 5'),
        fate=NOT_NULL,
    ),
    fields_class("no id", Change({"id": None}), Change({"id": "null"}), fate=NOT_NULL),
    fields_class(
        "unknown keys",
        Change(more='"": 1, " id": 2, "id ": 3, "__proto__": {}, "kafka": 5, "kafka_offset": 0, "tideline_batch": 0'),
    ),
    fields_class(
        "missing fields and nulls",
        *(
            Change({name: text}, {name: None})
            for name in ("s", "i4", "f8", "d", "t", "day", "b", "u", "doc")
            for text in ("null", None)
        ),
        *(Change({"place": text}, {"lat": None, "name": None}) for text in ("null", None, "{}")),
        *(Change({"tags": text}, {"tags": None}) for text in ("null", None)),
    ),
    fields_class(
        "an array that is none", *each("tags", "{}", '"a"', "1"), fate=Rejected("decode", "tags: expected an array")
    ),
    fields_class(
        "an object that is none",
        *each("place", "[]", '"a"', "1", "true"),
        fate=Rejected("decode", "place: expected an object"),
    ),
    fields_class(
        "a wrong element",
        *each("tags", '["a", 1]', '["a", ["b"]]', '["a", true]'),
        fate=Rejected("decode", "tags[1]: expected string"),
    ),
    fields_class(
        "a wrong field of a struct",
        *each("place", '{"lat": "1"}', '{"name": "x", "lat": true}', '{"lat": []}'),
        fate=Rejected("decode", "place.lat: expected double"),
    ),
    fields_class(
        "arrays of odd text",
        *kept(
            "tags", {"[]": "{}", "[null]": "{NULL}", '["NULL", ""]': '{"NULL",""}', '["{,}", "a b"]': '{"{,}","a b"}'}
        ),
        *kept("tags", {r'["\"", "\\"]': r'{"\"","\\"}', '["\\n", "é"]': '{"\n",é}'}),
    ),
    fields_class(
        "an element with U+0000",
        *each("tags", '["a", "\\u0000"]'),
        fate=Rejected("decode", "tags[1]: text holds U+0000"),
    ),
    fields_class(
        "a struct with more", Change({"place": '{"lat": 0.5, "lon": "x", "name": null}'}, {"lat": "0.5", "name": None})
    ),
    fields_class("nested 200 and 1,000 deep", *(Change(more=f'"z": {text}') for text in NESTED.values())),
    fields_class("nested deep in a declared field", *each("s", *NESTED.values()), fate=Rejected("decode", "")),
    fields_class(
        "many keys",
        Change(more=", ".join(f'"z{number}": {number}' for number in range(2_000))),
        Change({"s": '"x"'}, {"s": shown_text("x")}, more=f'"{"z" * 10_000}": 1'),
    ),
]
