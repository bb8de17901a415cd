"""The key of a record as text: a JSON array of the values of its key columns, in one form, so that equal keys are equal texts."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from tideline.domain.columns import ColumnType, DecimalType, SimpleType
from tideline.state.typed_values import OPTIONS, plain, restore

MAX_KEY_BYTES = 1024
"""An index of Postgres holds no longer texts than some 2,700 bytes."""
KEY_TYPES = ("string", "boolean", "smallint", "int", "bigint", "timestamp", "date", "decimal")


def is_key_type(kind: ColumnType) -> bool:
    """Return whether equal values of a type are equal texts."""
    return isinstance(kind, DecimalType) or (isinstance(kind, SimpleType) and kind.name in KEY_TYPES)


def key_text(values: Sequence[Any]) -> str:
    """Return the values of the key columns as text. They have the types of the columns, and none is None."""
    if len(values) == 1 and type(values[0]) in {str, int}:
        return orjson.dumps(values).decode()
    return orjson.dumps([plain(value) for value in values], option=OPTIONS).decode()


def key_reader(kinds: Sequence[ColumnType]) -> Callable[[str], Any]:
    """Return a function that turns the text of a key into what a processor gets: a value, or a tuple of several."""
    of_values = [restore(kind) for kind in kinds]

    def read(text: str) -> Any:
        values = tuple(of(one) for of, one in zip(of_values, orjson.loads(text), strict=True))
        return values[0] if len(values) == 1 else values

    return read
