"""Check a pipeline's table, and the reference tables of its processor, in the database, as the job does before it reads records. Change nothing."""

from collections.abc import Iterable, Iterator

import psycopg2
import psycopg2.errors
import pyarrow as pa
from psycopg2.sql import SQL

from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, Verdict
from tideline.errors import FatalError
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records import database_tables
from tideline.sinks.postgres import fitting, target_table
from tideline.sinks.postgres.fitting import Described
from tideline.statements import statement


def checked(session: Ledger, pipeline: Pipeline, produced: pa.Schema | None) -> Iterator[Check]:
    """Check the table, or what target.sql would create if there is no table.

    Raises:
        RetryableError: The database did not answer.
    """
    table = pipeline.table_sink.table

    def finding(verdict: Verdict, found: str) -> Check:
        return Check(about=pipeline.name, check=f"table {table}", verdict=verdict, found=found)

    with queries.reading(session):
        there = target_table.described(session, pipeline)
    if unkept := fitting.unkept(there, pipeline.table_sink):
        yield from (finding(Verdict.BAD, problem) for problem in unkept)
        return
    state = "exists"
    if not there.columns:
        state = "does not exist: the first batch creates it from target.sql"
        tried = _tried(session, pipeline)
        if isinstance(tried, psycopg2.errors.InsufficientPrivilege):
            yield finding(Verdict.NOT_CHECKED, f"{state}; this role may not try that: {_first_line(tried)}")
            return
        if isinstance(tried, psycopg2.Error):
            yield finding(Verdict.BAD, f"does not exist, and target.sql fails: {_first_line(tried)}")
            return
        there = tried
    if not there.columns:
        yield finding(
            Verdict.BAD,
            f"expected that target.sql creates {table}, found that it runs and creates no such table",
        )
        return
    problems = fitting.unkept(there, pipeline.table_sink)
    lacks = fitting.lacking(there, produced, pipeline)
    problems += fitting.problems(there, produced, pipeline.table_sink, lacks)
    yield from (finding(Verdict.BAD, problem) for problem in problems)
    if produced is None:
        yield finding(Verdict.NOT_CHECKED, f"{state}; whether what the transform returns fits")
    elif not problems:
        adds = f"; the next batch adds {fitting.listed(lacks)}" if lacks else ""
        yield finding(Verdict.OK, f"{state}; what the transform returns fits{adds}")


def _tried(session: Ledger, pipeline: Pipeline) -> Described | psycopg2.Error:
    """Return the table that target.sql creates, or the error of a statement. The transaction is rolled back."""
    text = (pipeline.folder / "target.sql").read_text(encoding="utf-8")
    with session.transaction():
        try:
            session.run_sql(SQL(statement("tideline.authoring", "try_target")), {"text": text})
            return target_table.described(session, pipeline)
        except psycopg2.OperationalError:
            raise  # a fault of the server, not of the file
        except psycopg2.Error as error:
            return error
        finally:
            session.connection.rollback()


def _first_line(error: psycopg2.Error) -> str:
    return str(error).strip().splitlines()[0]


def checked_references(session: Ledger | None, pipeline: Pipeline, tables: Iterable[str]) -> Iterator[Check]:
    """Check that each reference table can be read. Without a session, report that they were not checked.

    Raises:
        RetryableError: The database did not answer.
    """
    for table in tables:
        verdict, found = _read(session, table)
        yield Check(about=pipeline.name, check=f"table {table}", verdict=verdict, found=found)


def _read(session: Ledger | None, table: str) -> tuple[Verdict, str]:
    if session is None:
        return Verdict.NOT_CHECKED, "whether the processor can read it, which takes --database"
    try:
        with queries.reading(session):
            columns = database_tables.describe(session, database_tables.query_of(table))
    except RefusedStatementError as error:
        return Verdict.BAD, f"the processor cannot read it: {error.diag.message_primary}"
    except FatalError as error:
        return Verdict.BAD, f"the processor cannot read it: {error.problem}"
    return Verdict.OK, f"the processor reads its columns {', '.join(column.name for column in columns)}"
