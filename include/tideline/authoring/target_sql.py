"""Read target.sql without a database: the table that it creates, and what is certainly wrong with it.

Only Postgres knows all of its own syntax. A statement that the parser does not know is reported as not understood, and
what it could change is left open.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from tideline.authoring import table_definition
from tideline.authoring.column_types import identifier
from tideline.authoring.statements import Statement, statements, trailing_commas
from tideline.declaration.pipelines import Pipeline
from tideline.sinks.postgres import fitting
from tideline.sinks.postgres.column_types import Column
from tideline.sinks.postgres.fitting import Described

_SEARCH_PATH = re.compile(r"\bsearch_path\b", re.IGNORECASE)
_TABLE = re.compile(r"\bTABLE\b", re.IGNORECASE)
_ALTERS = re.compile(r"\s*(ALTER\s+TABLE|CREATE\s+UNIQUE)\b", re.IGNORECASE)
_KEEPS_COLUMNS = re.compile(r"\b(OWNER\s+TO|ENABLE|DISABLE|CLUSTER|REPLICA\s+IDENTITY)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSql:
    """What is known of a target.sql."""

    table: Described | None
    """The table of `sink.table`; None if its columns and keys are not known."""
    why_unknown: str
    mistakes: Sequence[str]
    not_understood: Sequence[str]
    is_readable: bool = True
    """Whether the file is text in UTF-8."""

    def problems(self, produced: pa.Schema | None, pipeline: Pipeline) -> list[str] | None:
        """Return what keeps a load from writing into the table, by the checks of the loader; None if the table is not known.

        Args:
            produced: The columns that the transform returns. None if they are not known: only the table is checked.
            pipeline: The declaration.
        """
        if self.table is None:
            return None
        return fitting.problems(self.table, produced, pipeline.table_sink, self.lacks(produced, pipeline))

    def lacks(self, produced: pa.Schema | None, pipeline: Pipeline) -> tuple[Column, ...]:
        """Return the columns that the first batch would add to the table."""
        return () if self.table is None else fitting.lacking(self.table, produced, pipeline)


def read(pipeline: Pipeline) -> TargetSql:
    """Return what is known of the pipeline's target.sql."""
    try:
        text = (pipeline.folder / "target.sql").read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        mistake = f"expected UTF-8, found byte {error.object[error.start]:#04x} at {error.start}"
        why = "target.sql is no text"
        return TargetSql(table=None, why_unknown=why, mistakes=[mistake], not_understood=[], is_readable=False)
    return _read(text, pipeline.table_sink.table)


def _read(text: str, table: str) -> TargetSql:
    found = list(statements(text))
    mistakes = [*_refused(text, found)]
    create = next((one for one in found if _creates(one, table, found)), None)
    if create is None:
        why_unknown = _why_uncreated(found, table)
        if not why_unknown:
            why_unknown = "target.sql does not create it"
            others = ", ".join(sorted({name for one in found if (name := _created(one))}))
            mistakes.append(f"expected a statement that creates {table} (sink.table), found {others or 'none'}")
    else:
        why_unknown = _why_open(create, found, table)
    is_known = create is not None and not why_unknown
    return TargetSql(
        table=table_definition.described(create, found) if create and is_known else None,
        why_unknown=why_unknown,
        mistakes=mistakes,
        not_understood=[one.fault for one in found if one.parsed is None],
    )


def _created(statement: Statement) -> str | None:
    """Return the table that a statement creates, with the schema if the statement names it."""
    create = statement.parsed
    table = create.find(exp.Table) if isinstance(create, exp.Create) and create.kind == "TABLE" else None
    if table is None:
        return None
    return ".".join(identifier(part) for part in (table.args.get("db"), table.this) if part)


def _creates(statement: Statement, table: str, found: Sequence[Statement]) -> bool:
    schema, name = table.split(".")
    # Without a schema it is created in the first schema of the search path, which is `public` unless the file sets it.
    may_lack_schema = schema == "public" or any(_SEARCH_PATH.search(one.text) for one in found)
    return _created(statement) in {table, *([name] if may_lack_schema else [])}


def _refused(text: str, found: Sequence[Statement]) -> Iterator[str]:
    """Yield what Postgres refuses in any file of this kind."""
    if text.startswith("\ufeff"):
        yield "expected UTF-8 without a byte order mark, found one: Postgres takes it for a part of the first word"
    yield from (f"line {line}: expected no comma before a parenthesis that closes" for line in trailing_commas(text))
    for one in found:
        if isinstance(one.parsed, exp.Create) and one.parsed.args.get("concurrently"):
            yield f"line {one.line}: expected statements that may run in a transaction, found CONCURRENTLY"


def _why_uncreated(found: Sequence[Statement], table: str) -> str:
    """Return the statement that may create the table, but is not understood; empty if there is none."""
    name = table.split(".")[1]
    maybe = (one for one in found if one.parsed is None and one.names(name) and _TABLE.search(one.text))
    return next((f"the statement on line {one.line} is not understood" for one in maybe), "")


def _why_open(create: Statement, found: Sequence[Statement], table: str) -> str:
    """Return why the columns of a created table are not known; empty if they are."""
    parsed = create.parsed
    if parsed is None or not isinstance(parsed.this, exp.Schema) or parsed.find(exp.LikeProperty, exp.InheritsProperty):
        return f"line {create.line} takes its columns from elsewhere"
    altering = (one for one in found if one.names(table.split(".")[1]) and _ALTERS.match(one.text))
    for one in altering:
        is_index = isinstance(one.parsed, exp.Create)
        if not is_index and not _KEEPS_COLUMNS.search(one.text):
            return f"line {one.line} changes it"
    return ""
