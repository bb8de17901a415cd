"""COPY rows into an attempt's staging table, and find those that the table refuses. Runs in the executors' Python.

COPY names only the first row that it refuses, and takes none. So one statement over a table without NOT NULLs and checks finds all rows that break
one; the staging table itself judges every other row and says every reason. What is wrong in another way is found by halving.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from spark_jobs.records.reject_reasons import of_error
from spark_jobs.records.row_bisection import isolate
from spark_jobs.sinks.postgres import OF_A_ROW, STAGED_ROW, STAGING_SCHEMA
from tideline.ledger.connection import statement
from tideline.ledger.session_settings import conninfo

_OF_A_LAW = ("23502", "23514")
"""NOT NULL and CHECK."""
_NO_RIGHT = "42501"
_FEW = 8
"""So many rows are tried one by one sooner than a statement over a table of their own has found the bad ones."""
_SIEVE = "tideline_sieve"


class RefusedError(Exception):
    """A row that its table cannot hold."""

    breaks_law = False
    """Whether it breaks a NOT NULL or a CHECK."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """What became of some rows that were given to the table."""

    n_staged: int
    refused: dict[int, str]
    """Reason by row number."""


class Copier:
    """One connection with the ledger's database, for one task.

    Args:
        ledger_url: libpq URI of the ledger.
        staging: Name of the attempt's staging table.
        target: Name of the table that people know: the same fault gives the same reason in every batch.
    """

    def __init__(self, ledger_url: str, staging: str, target: str) -> None:
        self._connection = adbc.connect(conninfo(ledger_url), autocommit=True)
        self._staging = staging
        self._target = target
        self._sifts = False
        """Whether the rows before these broke a NOT NULL or a CHECK: then these most likely do as well."""
        self._words: dict[int, str] = {}
        """What the table says of each law that was broken."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def copy(self, rows: pa.Table) -> tuple[int, dict[int, str]]:
        """COPY the rows that the table takes: how many they are, and the reason of each other one by its position, ascending.

        Raises:
            adbc.Error: The server cannot take them for a reason that is no row's.
        """
        numbered = rows.append_column(STAGED_ROW, pa.array(range(len(rows)), pa.int32()))
        taken, refusals = isolate(numbered, self._take, (RefusedError,), suspect=None)
        refused = {refusal.row.column(STAGED_ROW)[0].as_py(): refusal.reason for refusal in refusals}
        for part in taken:
            refused |= part.refused
        return sum(part.n_staged for part in taken), dict(sorted(refused.items()))

    def _take(self, rows: pa.Table) -> _Taken:
        if not self._sifts or len(rows) <= _FEW:
            try:
                return self._copy(rows)
            except RefusedError as error:
                if not error.breaks_law or len(rows) <= _FEW:
                    raise
        return self._sift(rows)

    def _copy(self, rows: pa.Table) -> _Taken:
        """All of the rows or, where the table refuses one, none of them.

        Raises:
            RefusedError: The table refused a row. A connection that is lost is none of the row's fault, and stays what it was.
        """
        try:
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(
                    self._staging, rows.drop_columns(STAGED_ROW), mode="append", db_schema_name=STAGING_SCHEMA
                )
        except adbc.Error as error:
            raise self._refusal(error) from error
        return _Taken(len(rows), {})

    def _sift(self, rows: pa.Table) -> _Taken:
        """The rows that break no NOT NULL and no CHECK, by way of a table of this session that has none.

        Raises:
            RefusedError: Something else is wrong with a row; none of them is taken.
        """
        if not self._laws:
            raise RefusedError("breaks a law that the table does not name")
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in rows.column_names if name != STAGED_ROW)
        laws = " ".join(f"WHEN {condition} THEN {number}" for number, condition in enumerate(self._laws))
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(self._statement("empty_sieve"))
                cursor.adbc_ingest(_SIEVE, rows, mode="append", temporary=True)
                cursor.execute(self._statement("sift", columns=columns, laws=laws))
                broken = cursor.fetchall()
        except adbc.Error as error:
            raise self._refusal(error) from error
        self._sifts = bool(broken)
        by_words = [self._judged(rows, number, law) for number, law in broken]
        refused = {number: words for (number, _), words in zip(broken, by_words, strict=True) if words is not None}
        return _Taken(len(rows) - len(refused), refused)

    def _judged(self, rows: pa.Table, number: int, law: int) -> str | None:
        """Why the staging table refuses a row that breaks a law, in its own words; None where it takes it after all."""
        if law not in self._words:
            first = rows.column(STAGED_ROW)[0].as_py()
            try:
                self._copy(rows.slice(number - first, 1))
            except RefusedError as error:
                self._words[law] = of_error(error)
        return self._words.get(law)

    @cached_property
    def _laws(self) -> list[str]:
        """What is true of a row that breaks a NOT NULL or a CHECK, in the order in which the server looks at them. Makes the sieve, too.

        Empty where this role may not make temporary tables: then rows are found by halving.
        """
        with self._connection.cursor() as cursor:
            cursor.execute(self._statement("list_laws"))
            laws = [condition for (condition,) in cursor.fetchall()]
            try:
                cursor.execute(self._statement("create_sieve"))
            except adbc.Error as error:
                if error.sqlstate == _NO_RIGHT:
                    return []
                raise
        return laws

    def _statement(self, name: str, **parts: str) -> str:
        return statement("spark_jobs.sinks", f"{name}.sql").format(
            staging=f"{STAGING_SCHEMA}.{self._staging}", sieve=f"pg_temp.{_SIEVE}", **parts
        )

    def _refusal(self, error: adbc.Error) -> adbc.Error | RefusedError:
        """The error as a refusal, where it is a row's fault."""
        state = str(error.sqlstate or "")
        if not (isinstance(error, adbc.DataError | adbc.IntegrityError) or state[:2] in OF_A_ROW):
            return error
        words = _server_words(str(error))
        for name in (self._staging, _SIEVE):
            words = words.replace(name, self._target)
        refusal = RefusedError(words)
        refusal.breaks_law = state in _OF_A_LAW
        return refusal


def _server_words(text: str) -> str:
    """What the server said, and about which column, without what the driver says around it."""
    said = re.search(r"ERROR:\s+(.*)", text)
    column = re.search(r"COPY .+, line \d+, column ([^:\n]+)", text)
    where = f"column {column[1]}: " if column else ""
    return where + (said[1] if said else text)
