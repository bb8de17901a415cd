"""Say the values of Kafka Connect's schemas as the JSON that columns are decoded from: exact numbers and dates as text, not as bytes or as days.

The converter of Connect writes JSON with the schema of each record beside it. What a value means is only there: the same
number is a count, a day or a microsecond. The names are those of Debezium's documentation, "Data type mappings".
"""

import base64
import binascii
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import orjson

Say = Callable[[Any], object]
"""Returns a value as JSON has it, by the schema that the function was made for. Raises ConnectValueError if it is none of that schema."""


class ConnectValueError(ValueError):
    """A value is none of its schema, or the schema is none."""


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - in UTC; with its zone, each timestamp would take three times as long
NOT_THERE = "__debezium_unavailable_value"
"""What stands for a value that the database did not tell."""
_IN_BYTES = base64.b64encode(NOT_THERE.encode()).decode()
SIGNS = (NOT_THERE, _IN_BYTES)
"""What stands in JSON that holds such a value. Most holds none, and need not be looked into."""
_SIGNS_IN_BYTES = tuple(sign.encode() for sign in SIGNS)
_FIRST_DAY, _LAST_DAY = date.min.toordinal(), date.max.toordinal()
_US_OF_DAY = 86_400_000_000


def may_hold_unavailable(text: bytes) -> bool:
    """Return whether JSON may hold a value that `is_unavailable`."""
    return any(sign in text for sign in _SIGNS_IN_BYTES)


def is_unavailable(value: object) -> bool:
    """Return whether a value stands for one that the database did not tell: it is stored apart (TOAST) and was not changed."""
    if isinstance(value, list):
        return len(value) == 1 and is_unavailable(value[0])
    if isinstance(value, dict):
        return [*value] == [NOT_THERE]
    return isinstance(value, str) and value in {NOT_THERE, _IN_BYTES}


def saying(schema: Mapping[str, Any]) -> Say | None:
    """Return what says the values of a schema; None if they are JSON as they stand.

    Raises:
        ConnectValueError: It is no schema of Connect.
    """
    kind, name = schema.get("type"), schema.get("name")
    if name in _NAMED:
        return _NAMED[name](schema)
    if kind == "struct":
        return _of_struct(schema)
    if kind == "array":
        inner = saying(_part(schema, "items"))
        return partial(_items, inner) if inner else None
    return None


def fields_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the fields of a struct by their names.

    Raises:
        ConnectValueError: It is no schema of a struct.
    """
    fields = schema.get("fields")
    if schema.get("type") != "struct" or not isinstance(fields, list):
        raise ConnectValueError("the schema is not one of Kafka Connect: expected a struct with fields")
    if not all(isinstance(one, dict) and isinstance(one.get("field"), str) for one in fields):
        raise ConnectValueError("the schema is not one of Kafka Connect: expected fields with names")
    return {one["field"]: one for one in fields}


def _part(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    if not isinstance(found, dict):
        raise ConnectValueError(f"the schema is not one of Kafka Connect: expected {key} of an {schema.get('type')}")
    return found


def _of_struct(schema: Mapping[str, Any]) -> Say | None:
    inner = saying_fields(schema)
    return partial(_fields, inner) if inner else None


def saying_fields(schema: Mapping[str, Any], names: Collection[str] | None = None) -> dict[str, Say]:
    """Return what says the values of the fields of a struct, of all or of those with these names. Fields whose values are JSON are not among them.

    Raises:
        ConnectValueError: It is no schema of a struct.
    """
    fields = fields_of(schema).items()
    return {name: say for name, one in fields if (names is None or name in names) and (say := saying(one))}


def _fields(inner: Mapping[str, Say], value: object) -> object:
    if not isinstance(value, dict):
        raise ConnectValueError("expected an object")
    return said(inner, value)


def said(inner: Mapping[str, Say], value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the values of these fields as JSON has them.

    Raises:
        ConnectValueError: One is none of its schema. The message begins with its name.
    """
    found = dict(value)
    for name, say in inner.items():
        if (one := value.get(name)) is not None:
            try:
                found[name] = say(one)
            except ConnectValueError as error:
                raise ConnectValueError(f"{name}: {error}") from error
    return found


def _items(inner: Say, value: object) -> object:
    if not isinstance(value, list):
        raise ConnectValueError("expected an array")
    return [None if one is None else inner(one) for one in value]


def _decimal(schema: Mapping[str, Any]) -> Say:
    parameters = schema.get("parameters")
    scale = str(parameters.get("scale")) if isinstance(parameters, dict) else ""
    if not re.fullmatch(r"-?\d{1,5}", scale, re.ASCII) or abs(int(scale)) > _MOST_DIGITS:
        raise ConnectValueError("the schema is not one of Kafka Connect: expected the scale of a decimal")
    return partial(_unscaled, int(scale))


def _unscaled(scale: int, value: object) -> str:
    if not isinstance(value, str):
        raise ConnectValueError("expected a decimal in base64")
    try:
        number = int.from_bytes(base64.b64decode(value, validate=True), signed=True)
    except binascii.Error as error:
        raise ConnectValueError("expected a decimal in base64") from error
    digits = f"{abs(number)}{'0' * -scale}".rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[: len(digits) - max(scale, 0)]}{f'.{digits[-scale:]}' if scale > 0 else ''}"


def _variable_decimal(value: object) -> str:
    if not isinstance(value, dict) or type(scale := value.get("scale")) is not int or abs(scale) > _MOST_DIGITS:
        raise ConnectValueError("expected a decimal with its scale")
    return _unscaled(scale, value.get("value"))


_MOST_DIGITS = 16_383  # of numeric in Postgres, behind the point


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ConnectValueError("expected an integer")
    return value


def _day(value: object) -> str:
    ordinal = _EPOCH.toordinal() + _whole(value)
    if not _FIRST_DAY <= ordinal <= _LAST_DAY:
        raise ConnectValueError(
            f"day {value} since 1970 is not in the years 1 to 9999: an infinite date has no value here"
        )
    return date.fromordinal(ordinal).isoformat()


def _moment(ns: int, value: object) -> str:
    """Say a time since 1970 in units of so many nanoseconds."""
    us, rest = divmod(_whole(value) * ns, 1_000)
    if rest:
        raise ConnectValueError(f"{value} nanoseconds since 1970 are finer than a microsecond")
    try:
        return f"{(_EPOCH + timedelta(microseconds=us)).isoformat()}Z"
    except OverflowError as error:
        raise ConnectValueError(
            f"{value} is not in the years 1 to 9999: an infinite timestamp has no value here"
        ) from error


def _time(ns: int, value: object) -> str:
    us, rest = divmod(_whole(value) * ns, 1_000)
    if rest:
        raise ConnectValueError(f"{value} nanoseconds since midnight are finer than a microsecond")
    if not 0 <= us <= _US_OF_DAY:
        raise ConnectValueError(f"{value} is no time of a day")
    return "24:00:00" if us == _US_OF_DAY else (_EPOCH + timedelta(microseconds=us)).time().isoformat()


def document(value: object) -> object:
    """Say JSON that stands in a string: what it holds, as it is written.

    Raises:
        ConnectValueError: It is none.
    """
    if not isinstance(value, str):
        raise ConnectValueError("expected JSON in a string")
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise ConnectValueError(f"not valid JSON: {error}") from error
    return orjson.Fragment(value)


def _same(say: Say) -> Callable[[Mapping[str, Any]], Say]:
    return lambda _: say


_MS, _US, _NS = 1_000_000, 1_000, 1
_NAMED: dict[str, Callable[[Mapping[str, Any]], Say | None]] = {
    "org.apache.kafka.connect.data.Decimal": _decimal,
    "io.debezium.data.VariableScaleDecimal": _same(_variable_decimal),
    "org.apache.kafka.connect.data.Date": _same(_day),
    "io.debezium.time.Date": _same(_day),
    "org.apache.kafka.connect.data.Timestamp": _same(partial(_moment, _MS)),
    "io.debezium.time.Timestamp": _same(partial(_moment, _MS)),
    "io.debezium.time.MicroTimestamp": _same(partial(_moment, _US)),
    "io.debezium.time.NanoTimestamp": _same(partial(_moment, _NS)),
    "org.apache.kafka.connect.data.Time": _same(partial(_time, _MS)),
    "io.debezium.time.Time": _same(partial(_time, _MS)),
    "io.debezium.time.MicroTime": _same(partial(_time, _US)),
    "io.debezium.time.NanoTime": _same(partial(_time, _NS)),
    "io.debezium.time.IsoDate": lambda _: _iso_day,
    "io.debezium.data.Json": _same(document),
}
"""By the name of a schema: what makes the function. Names that are not here have values that are JSON as they stand."""


def _iso_day(value: object) -> str:
    if not isinstance(value, str):
        raise ConnectValueError("expected a date")
    return value.removesuffix("Z")
