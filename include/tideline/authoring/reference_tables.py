"""Check that the reference tables of a processor can be read, as the job does before it reads records."""

from collections.abc import Iterable, Iterator

from tideline.authoring.findings import Finding, FindingVerdict
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError
from tideline.ledger import queries
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records import database_tables


def checked(session: Ledger | None, pipeline: Pipeline, tables: Iterable[str]) -> Iterator[Finding]:
    """Check each table. Without a session, report that they were not checked.

    Raises:
        RetryableError: The database did not answer.
    """
    for table in tables:
        verdict, found = _read(session, table)
        yield Finding(pipeline=pipeline.name, where=f"table {table}", verdict=verdict, found=found)


def _read(session: Ledger | None, table: str) -> tuple[FindingVerdict, str]:
    if session is None:
        return FindingVerdict.NOT_CHECKED, "whether the processor can read it, which takes --database"
    try:
        with queries.reading(session):
            columns = database_tables.describe(session, database_tables.query_of(table))
    except RefusedStatementError as error:
        return FindingVerdict.BAD, f"the processor cannot read it: {error.diag.message_primary}"
    except FatalError as error:
        return FindingVerdict.BAD, f"the processor cannot read it: {error.problem}"
    return FindingVerdict.OK, f"the processor reads its columns {', '.join(column.name for column in columns)}"
