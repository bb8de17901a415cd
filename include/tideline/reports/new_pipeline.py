"""Builds the report of a new pipeline: what its records look like, what they do not decide, and what was written."""

from collections.abc import Iterable
from typing import Any

from tideline.authoring import new_pipeline
from tideline.authoring.new_pipeline import Made, Options
from tideline.authoring.scaffold import share
from tideline.authoring.table_columns import TableColumn, of_survey
from tideline.declaration import pipelines
from tideline.reports.report import Cell, Grid, Report


def new(options: Options) -> Report:
    """Write the pipeline and describe it.

    Raises:
        FatalError: The name, an option or the topic is wrong, the folder exists, or the topic has no records.
        RetryableError: The brokers did not answer.
    """
    made = new_pipeline.make(options)
    columns = of_survey(made.seen)
    fields = Grid(
        columns=("field", "type", "column", "table type", "null", "missing"),
        rows=[tuple(_cells(column, made.seen.n_records)) for column in columns],
        title="Fields",
    )
    parts: list[Grid | str] = [_seen(made), *([fields] if columns else []), *_doubts(made)]
    parts.append(_written(made, options.name, real=options.values))
    return Report(document=_document(made, columns, options.name, real=options.values), parts=parts)


def _seen(made: Made) -> str:
    seen = made.seen
    if not seen.n_records:
        return f"No record of {seen.topic} was looked at."
    lines = [
        f"Looked at {seen.n_records:,} records of {seen.topic}, from {seen.n_partitions:,} partitions.",
        f"  values   {seen.value_format}",
        f"  keys     {seen.keys}",
        f"  headers  {', '.join(map(ascii, seen.headers)) or 'none'}",
    ]
    if seen.is_gappy:
        lines.append("  gaps     yes: source.gaps is set to allowed")
    return "\n".join(lines)


def _cells(column: TableColumn, n_records: int) -> Iterable[Cell]:
    field = column.field
    yield field.name
    yield str(field.kind)
    yield column.name
    yield column.type_name
    for count in (field.n_null, field.n_missing):
        yield share(count, n_records) if count else None


def _doubts(made: Made) -> list[str]:
    if not made.doubts:
        return []
    return ["\n".join(["Not sure:", *(f"  - {doubt}" for doubt in made.doubts)])]


def _written(made: Made, name: str, *, real: bool) -> str:
    sample = pipelines.shown(made.sample)
    lines = [f"Wrote {pipelines.shown(made.folder)}: {', '.join(made.files)}"]
    if real and made.seen.good:
        lines.append(
            f"{made.sample.name} holds real records, which may be personal data: look before you commit it, or write the "
            "folder again with --no-values."
        )
    return "\n".join(
        [
            *lines,
            f"Next: tideline validate {name}",
            f"      tideline test {name} {sample}",
            f"      tideline sample {name}",
        ]
    )


def _document(made: Made, columns: Iterable[TableColumn], name: str, *, real: bool) -> dict[str, Any]:
    seen = made.seen
    return {
        "pipeline": name,
        "folder": str(made.folder),
        "files": list(made.files),
        "sample_is_real": real and bool(seen.good),
        "topic": seen.topic,
        "records": seen.n_records,
        "format": seen.value_format,
        "keys": seen.keys,
        "headers": list(seen.headers),
        "gaps": seen.is_gappy,
        "fields": [
            {
                "field": column.field.name,
                "type": str(column.field.kind),
                "column": column.name,
                "table_type": column.type_name,
                "null": column.field.n_null,
                "missing": column.field.n_missing,
            }
            for column in columns
        ],
        "unsure": [doubt._asdict() for doubt in made.doubts],
    }
