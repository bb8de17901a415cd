"""Write the folder of a new pipeline: declaration, table, transform, and a test with its sample.

The files are templates in `templates/`. No file but the sample holds values of records.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tideline.authoring import sample_values
from tideline.authoring.survey import TopicSurvey
from tideline.authoring.surveyed_fields import SurveyedField
from tideline.authoring.table_columns import TableColumn, of_survey, quoted
from tideline.declaration.sections import FromEnvironment
from tideline.domain.columns import SimpleType
from tideline.registry.sample_schemas import FILE as SCHEMAS_FILE
from tideline.registry.sample_schemas import as_file

_PLAIN = re.compile(r"[A-Za-z_][\w.,()<>-]*", re.ASCII)
_YAML_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_BAD_VALUES = {"json": 'b"not JSON"', "debezium": 'b"no change"', "text": r'b"\xff"', "bytes": "None"}
_WHOLE = {"text": "text", "bytes": "bytea"}
_EXAMPLE = re.compile(r"[A-Za-z_]\w{0,29}", re.ASCII)

Setting = str | FromEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConnection:
    """How the declaration reaches the brokers: the keys of `source`."""

    servers: Setting
    security: dict[str, Setting]
    registry: dict[str, Any]
    """Empty if values have no frame."""


def write(
    folder: Path, seen: TopicSurvey, *, connection: SourceConnection, table: str, schema: str | None, values: bool
) -> list[str]:
    """Write the files of a pipeline into an empty folder, whose name is the pipeline's; return their names.

    Args:
        folder: The folder.
        seen: What the records look like.
        connection: How to reach the brokers.
        table: The output table, as `schema.table`.
        schema: The path of the JSON schema for editors, relative to the folder; None if there is none.
        values: Whether the sample holds real records. Otherwise it holds invented ones.
    """
    columns = _columns(seen)
    sample = "sample.jsonl" if seen.value_format == "json" and not seen.schemas else "sample.txt"
    lines = (sample_values.real(seen) if values else []) or sample_values.invented(seen)
    schema_name, _, table_name = table.partition(".")
    context = {
        "name": folder.name,
        "topic": seen.topic,
        "value_format": seen.value_format,
        "message": seen.message,
        "is_gappy": seen.is_gappy,
        # Doubts about whole records quote the reasons of rejects, and these quote values.
        "doubts": [doubt for doubt in seen.doubts if doubt.subject != "records"],
        "servers": connection.servers,
        "security": connection.security,
        "registry": connection.registry,
        "schema": schema,
        "schema_name": schema_name,
        "table_name": table_name,
        "changes": seen.changes,
        "fields": seen.fields,
        "columns": columns,
        "moments": [column for column in columns if column.field.unit],
        "renamed": [column for column in columns if column.is_renamed],
        "key": ", ".join(column.quoted for column in columns[: len(seen.changes.key)]) if seen.changes else "",
        "example": next((c.field.name for c in columns if _EXAMPLE.fullmatch(c.field.name)), "column"),
        "sample": sample,
        "bad_value": _bad_value(seen),
    }
    templates = {
        "pipeline.yaml": "pipeline.yaml.j2",
        "target.sql": "target.sql.j2",
        "transform.py": "transform.py.j2",
        f"test_{folder.name}.py": "test.py.j2",
    }
    environment = _environment(seen)
    for file, template in templates.items():
        (folder / file).write_text(environment.get_template(template).render(context), encoding="utf-8")
    if seen.schemas:
        (folder / SCHEMAS_FILE).write_text(as_file(seen.schemas) + "\n", encoding="utf-8")
        templates[SCHEMAS_FILE] = ""
    (folder / sample).write_bytes(b"".join(line + b"\n" for line in lines))
    return [*templates, sample]


def _columns(seen: TopicSurvey) -> list[TableColumn]:
    if seen.fields:
        return of_survey(seen)
    whole = SurveyedField(name="value", kind=SimpleType("string"))
    return [TableColumn(name="value", type_name=_WHOLE[seen.value_format], field=whole)]


def _bad_value(seen: TopicSurvey) -> str:
    """Return a value that cannot be decoded, as Python, with a key that can be where keys are decoded."""
    bad = 'b"no frame"' if seen.schemas else _BAD_VALUES[seen.value_format]
    return f"(SAMPLE[0][0], {bad})" if seen.changes else bad


def _environment(seen: TopicSurvey) -> Environment:
    environment = Environment(  # noqa: S701 - the files are no HTML
        loader=PackageLoader("tideline.authoring"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def remark(column: TableColumn) -> str:
        return _remark(column, seen.n_records)

    environment.filters |= {"scalar": _scalar, "flow": _flow, "python": _python, "sql": quoted, "remark": remark}
    return environment


def _scalar(text: str) -> str:
    """Return text as a key or a value of YAML. It is printable ASCII."""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    return _in_double_quotes(text)


def _flow(value: Setting | tuple[str, ...] | int) -> str:
    match value:
        case FromEnvironment():
            return f"{{env: {value.env}}}"
        case tuple():
            return f"[{', '.join(map(_in_double_quotes, value))}]"
        case _:
            return _scalar(str(value))


def _python(text: str) -> str:
    """Return text as a literal of Python, as ruff formats it. It is printable ASCII."""
    if text.count('"') <= text.count("'"):
        return _in_double_quotes(text)
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


def _in_double_quotes(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


def _remark(column: TableColumn, n_records: int) -> str:
    """Return a comment about the field of a column; empty if it has its name and was in each record."""
    field = column.field
    said = [f"field {_in_double_quotes(field.name)}"] if column.is_renamed else []
    for count, what in ((field.n_null, "null"), (field.n_missing, "missing")):
        if count:
            said.append(f"{what} in {share(count, n_records)} of the records")
    return f"  -- {', '.join(said)}" if said else ""


def share(count: int, of: int) -> str:
    """Return a part of a whole in per cent, never rounded to 0% or 100%."""
    percent = 100 * count / of
    return "< 1%" if percent < 1 else "> 99%" if 99 < percent < 100 else f"{percent:.0f}%"  # noqa: PLR2004 - per cent


def as_settings(model: Any) -> dict[str, Any]:
    """Return the keys of `source.security` or of `source.registry` that are set and differ from their defaults."""
    fields = type(model).model_fields
    found = {key: getattr(model, key) for key in fields}
    return {key: value for key, value in found.items() if value is not None and value != fields[key].default}
