"""The columns of a new table: names that Postgres takes, and types that hold the fields' values. Pure functions."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from tideline.authoring.survey import TopicSurvey
from tideline.authoring.surveyed_fields import SurveyedField
from tideline.domain.columns import WHOLE, ArrayType, DecimalType, SimpleType, parse_type
from tideline.sinks.postgres.fitting import FILLED

# The words that Postgres does not take as the name of a column unless they are quoted: of the categories "reserved" and
# "reserved (can be function or type)" in pg_get_keywords().
RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true union
    unique user using variadic verbose when where window with""".split()  # noqa: SIM905 - a list would have one word on each line
)
_TAKEN = frozenset(("kafka", *FILLED, "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
"""Names of the sink's columns and of the columns that every table of Postgres has."""
_MAX_NAME = 63
_TYPES = {
    "string": "text",
    "double": "double precision",
    "float": "real",
    "int": "integer",
    "timestamp": "timestamptz",
    WHOLE: "jsonb",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of the table, and the field that it holds."""

    name: str
    type_name: str
    field: SurveyedField

    not_null: bool = False

    @property
    def quoted(self) -> str:
        """Return the name as SQL."""
        return quoted(self.name)

    @property
    def is_renamed(self) -> bool:
        """Return whether the field has another name."""
        return self.name != self.field.name


def quoted(name: str) -> str:
    """Return a name as SQL, in quotes where it would not be this name without them."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in RESERVED:
        return name
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def of_survey(seen: TopicSurvey) -> list[TableColumn]:
    """Return the columns of the table for what records were seen to hold. Key and order of changes keep their names: the sink names them."""
    if seen.changes is None:
        return table_columns(seen.fields)
    order = [
        SurveyedField(name=path.replace(".", "_"), kind=parse_type(kind)) for path, kind in seen.changes.order.items()
    ]
    key, place = (
        [TableColumn(name=one.name, type_name=_type_name(one), field=one, not_null=True) for one in fields]
        for fields in (seen.changes.key, order)
    )
    return [*key, *table_columns(seen.fields, taken=[one.name for one in (*key, *place)]), *place]


def table_columns(fields: Iterable[SurveyedField], taken: Iterable[str] = ()) -> list[TableColumn]:
    """Return a column for each field, with different names, none of which is taken."""
    found: dict[str, TableColumn] = {}
    fields, taken = list(fields), {*taken}
    kept = {field.name for field in fields if _legal(field.name) == field.name} | taken
    for field in fields:
        name = field.name if field.name in kept - taken else _free(_legal(field.name), kept | found.keys())
        found[name] = TableColumn(name=name, type_name=_type_name(field), field=field)
    return list(found.values())


def _legal(name: str) -> str:
    """Return the name in lower case with underscores, as `user_id` for `userId`."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    legal = re.sub(r"[^a-z0-9_]+", "_", parted.lower())[:_MAX_NAME] or "field"
    return f"field_{legal}"[:_MAX_NAME] if legal[0].isdigit() or legal in _TAKEN else legal


def _free(name: str, taken: Iterable[str]) -> str:
    """Return the name, or the name with the first number that makes it different."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[: _MAX_NAME - 8]}_{number}"
    return free


def _type_name(field: SurveyedField) -> str:
    if field.unit:
        return "timestamptz"
    match field.kind:
        case SimpleType(name="string") if field.is_uuid:
            return "uuid"
        case SimpleType(name=name):
            return _TYPES.get(name, name)
        case DecimalType(precision=precision, scale=scale):
            return f"numeric({precision}, {scale})"
        case ArrayType(element=SimpleType(name=name)):
            return "text[]" if name == "string" else f"{_TYPES.get(name, name)}[]"
        case _:
            return "jsonb"
