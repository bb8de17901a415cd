"""Check a pipeline's table in the database, as the loader does before it reads, and change nothing."""

from collections.abc import Iterator

import psycopg2
import psycopg2.errors
import pyarrow as pa
from psycopg2.sql import SQL

from tideline.authoring.findings import Finding, FindingVerdict
from tideline.declaration.pipelines import Pipeline
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import fitting, target_table
from tideline.sinks.postgres.fitting import Described
from tideline.statements import statement


def checked(session: Ledger, pipeline: Pipeline, produced: pa.Schema | None) -> Iterator[Finding]:
    """Check the table, or what target.sql would create if there is no table.

    Raises:
        RetryableError: The database did not answer.
    """
    table = pipeline.table_sink.table

    def finding(verdict: FindingVerdict, found: str) -> Finding:
        return Finding(pipeline=pipeline.name, where=f"table {table}", verdict=verdict, found=found)

    with queries.reading(session):
        there = target_table.described(session, pipeline)
    if unkept := fitting.unkept(there, pipeline.table_sink):
        yield from (finding(FindingVerdict.BAD, problem) for problem in unkept)
        return
    state = "exists"
    if not there.columns:
        state = "does not exist: the first batch creates it from target.sql"
        tried = _tried(session, pipeline)
        if isinstance(tried, psycopg2.errors.InsufficientPrivilege):
            yield finding(FindingVerdict.NOT_CHECKED, f"{state}; this role may not try that: {_first_line(tried)}")
            return
        if isinstance(tried, psycopg2.Error):
            yield finding(FindingVerdict.BAD, f"does not exist, and target.sql fails: {_first_line(tried)}")
            return
        there = tried
    if not there.columns:
        yield finding(
            FindingVerdict.BAD,
            f"expected that target.sql creates {table}, found that it runs and creates no such table",
        )
        return
    problems = fitting.unkept(there, pipeline.table_sink)
    problems += fitting.problems(there, produced, pipeline.table_sink.item, fitting.upsert_of(pipeline.table_sink))
    yield from (finding(FindingVerdict.BAD, problem) for problem in problems)
    if produced is None:
        yield finding(FindingVerdict.NOT_CHECKED, f"{state}; whether what the transform returns fits")
    elif not problems:
        yield finding(FindingVerdict.OK, f"{state}; what the transform returns fits")


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
