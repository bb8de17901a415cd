"""Name the types of columns in a parsed CREATE TABLE as Postgres names them in its catalog."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from tideline.sinks.postgres.column_types import Column

_NAMES = {
    **dict.fromkeys(("boolean", "bool"), "boolean"),
    **dict.fromkeys(("smallint", "int2", "smallserial", "serial2"), "smallint"),
    **dict.fromkeys(("integer", "int", "int4", "serial", "serial4"), "integer"),
    **dict.fromkeys(("bigint", "int8", "bigserial", "serial8"), "bigint"),
    **dict.fromkeys(("real", "float4"), "real"),
    **dict.fromkeys(("double precision", "float", "float8"), "double precision"),
    **dict.fromkeys(("numeric", "decimal", "dec"), "numeric"),
    **dict.fromkeys(("varchar", "character varying", "char varying"), "character varying"),
    **dict.fromkeys(("char", "character"), "character"),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), "timestamp with time zone"),
    **dict.fromkeys(("timestamp", "timestamp without time zone"), "timestamp without time zone"),
    **dict.fromkeys(("time", "time without time zone"), "time without time zone"),
    **dict.fromkeys(("timetz", "time with time zone"), "time with time zone"),
    **{name: name for name in ("text", "date", "bytea", "uuid", "json", "jsonb", "inet", "cidr", "interval", "citext")},
}
"""The name in the catalog by each name that a file may use. The parser also knows types of other databases, such as `string`."""
_WORDS = re.compile(
    r'(?:\s|--.*\n|/\*[\s\S]*?\*/)*(?:pg_catalog\.)?"?(double\s+precision|char(?:acter)?\s+varying|time(?:stamp)?(?:\s*\(\d\))?\s+with(?:out)?\s+time\s+zone|\w+(?:\.\w+)?)',
    re.IGNORECASE,
)
_OF_SECONDS = ("timestamp with time zone", "timestamp without time zone", "time without time zone", "interval")
_SERIALS = ("serial", "serial2", "serial4", "serial8", "smallserial", "bigserial")
_REAL_BITS = 24  # of `float(p)`: up to this precision it is `real`


def described(definition: exp.ColumnDef, text: str, types: Mapping[str, Column], *, in_key: bool) -> Column:
    """Return a column of CREATE TABLE as the catalog would describe it.

    Args:
        definition: The parsed column.
        text: The text of the whole statement, since the parser does not keep how a type is written.
        types: Columns of the types that the file creates, by the names of the types without their schema.
        in_key: Whether the table's primary key holds the column, which then must not be null.
    """
    name = definition.this
    written = _WORDS.match(text, name.meta["end"] + 1)
    words = re.sub(r"\s*\(\d\)|\s+", " ", written[1].lower()).replace("  ", " ") if written else ""
    kind = definition.args.get("kind")
    numbers = _numbers(kind)
    catalog = _NAMES.get(words, words)
    if words == "float" and numbers and numbers[0] <= _REAL_BITS:
        catalog = "real"
    is_array = isinstance(kind, exp.DataType) and kind.is_type("array")
    kinds = [constraint.kind for constraint in definition.constraints]
    filled = _filled(kinds)
    has_value = words in _SERIALS or any(isinstance(one, _GIVE_VALUES) for one in kinds)
    forbids_null = in_key or any(map(_forbids_null, kinds))
    base = types.get(words.rpartition(".")[2].strip('"'))
    if base is not None and not is_array:
        forbids_null = forbids_null or base.not_null
        required = forbids_null and not has_value
        return replace(base, name=identifier(name), filled=filled, required=required, not_null=forbids_null)
    has_fields = isinstance(kind, exp.DataType) and isinstance(kind.this, exp.Interval)
    digits = (numbers[0] if numbers else 0 if has_fields else None) if catalog in _OF_SECONDS else None
    return Column(
        name=identifier(name),
        type_name=f"{catalog}[]" if is_array else catalog,
        precision=numbers[0] if numbers and catalog == "numeric" else None,
        scale=[*numbers, 0][1] if numbers and catalog == "numeric" else None,
        length=numbers[0] if numbers and catalog in {"character varying", "character"} else None,
        digits=digits,
        filled=filled,
        required=forbids_null and not has_value,
        not_null=forbids_null or words in _SERIALS,
    )


def identifier(name: exp.Expr) -> str:
    """Return a name as the catalog has it: in lower case, unless it is quoted."""
    return str(name.name) if name.args.get("quoted") else str(name.name).lower()


_GIVE_VALUES = (
    exp.DefaultColumnConstraint,
    exp.GeneratedAsIdentityColumnConstraint,
    exp.ComputedColumnConstraint,
)


def _forbids_null(constraint: object) -> bool:
    if isinstance(constraint, exp.NotNullColumnConstraint):
        return not constraint.args.get("allow_null")
    return isinstance(constraint, exp.PrimaryKeyColumnConstraint)


def _filled(constraints: Sequence[object]) -> str | None:
    for constraint in constraints:
        if isinstance(constraint, exp.ComputedColumnConstraint):
            return "GENERATED"
        if isinstance(constraint, exp.GeneratedAsIdentityColumnConstraint) and constraint.this:
            return "IDENTITY ALWAYS"
    return None


def _numbers(kind: exp.Expr | None) -> list[int]:
    """Return the numbers in the parentheses of a type."""
    if not isinstance(kind, exp.DataType) or kind.is_type("array"):
        return []
    given = (part.sql(dialect="postgres") for part in kind.expressions)
    return [int(text) for text in given if re.fullmatch(r"-?\d+", text)]
