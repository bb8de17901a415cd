"""COPY rows into an attempt's staging table, and find the rows that the table refuses. Runs in the executors' Python.

COPY reports only the first row that it refuses, and then inserts no row. If that row breaks a NOT NULL or a check, the
rows are copied into a table without these (the sieve), and one statement over it finds all rows that break one. The
staging table checks the other rows, and all reasons are its error messages. Rows that are refused for another cause are
found by bisection.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from tideline.domain.reject_reasons import of_error
from tideline.records.row_bisection import isolate
from tideline.records.task_sessions import TaskSession
from tideline.sinks.postgres.fitting import STAGED_ROW
from tideline.sinks.postgres.target_table import OF_A_ROW
from tideline.sinks.sink import RefusedError
from tideline.sinks.staging_tables import STAGING_SCHEMA
from tideline.statements import statement

_OF_A_LAW = ("23502", "23514")
"""NOT NULL and CHECK."""
_NO_RIGHT = "42501"
_FEW = 8
"""Up to this many rows, it is faster to try them one by one than to use the sieve."""
_SIEVE = "tideline_sieve"


@dataclass(frozen=True, slots=True)
class _Taken:
    """The result of an attempt to stage some rows."""

    n_staged: int
    refused: dict[int, str]
    """Reason by row number."""


class Copier:
    """One connection with the ledger's database, for one task.

    Args:
        ledger_url: libpq URI of the ledger.
        staging: Name of the attempt's staging table.
        target: Name of the target table. Reasons name it instead of the staging table, so that the same fault has the
            same reason in every batch.
    """

    def __init__(self, ledger_url: str, staging: str, target: str) -> None:
        self._session = TaskSession(ledger_url)
        self._staging = staging
        self._target = target
        self._sifts = False
        """Whether the previous rows broke a NOT NULL or a CHECK. Then the next rows probably do as well, and the sieve is used at once."""
        self._reasons: dict[int, str] = {}
        """The error message of the table for each law that was broken, by the number of the law."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @property
    def connection(self) -> adbc.Connection:
        """The session as it is open now."""
        return self._session.connection

    def wake(self) -> None:
        """Open the session again if it was ended while it was idle, before rows are copied."""
        if self._session.wake():
            self.__dict__.pop("_laws", None)  # the sieve is gone

    def copy(self, rows: pa.Table) -> tuple[int, dict[int, str]]:
        """COPY the rows that the table accepts. Return how many these are, and the reason of each refused row by its position, ascending.

        Raises:
            adbc.Error: The server failed for a cause that is not the fault of a row.
        """
        self.wake()
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
        """COPY all of the rows, or none of them if the table refuses one.

        Raises:
            RefusedError: The table refused a row.
            adbc.Error: Another error, such as a lost connection, which is not the fault of a row.
        """
        try:
            with self.connection.cursor() as cursor:
                cursor.adbc_ingest(
                    self._staging, rows.drop_columns(STAGED_ROW), mode="append", db_schema_name=STAGING_SCHEMA
                )
        except adbc.Error as error:
            raise self._refusal(error) from error
        return _Taken(len(rows), {})

    def _sift(self, rows: pa.Table) -> _Taken:
        """Stage the rows that break no NOT NULL and no CHECK, with a temporary table (the sieve) that has none of these.

        Raises:
            RefusedError: A row is refused for another cause. Then no row is staged.
        """
        if not self._laws:
            raise RefusedError("breaks a law that the table does not name")
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in rows.column_names if name != STAGED_ROW)
        laws = " ".join(f"WHEN {condition} THEN {number}" for number, condition in enumerate(self._laws))
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(self._statement("empty_sieve"))
                cursor.adbc_ingest(_SIEVE, rows, mode="append", temporary=True)
                cursor.execute(self._statement("sift", columns=columns, laws=laws))
                broken = cursor.fetchall()
        except adbc.Error as error:
            raise self._refusal(error) from error
        self._sifts = bool(broken)
        reasons = [self._reason(rows, number, law) for number, law in broken]
        refused = {number: reason for (number, _), reason in zip(broken, reasons, strict=True) if reason is not None}
        return _Taken(len(rows) - len(refused), refused)

    def _reason(self, rows: pa.Table, number: int, law: int) -> str | None:
        """Return why the staging table refuses a row that breaks a law, as its error message; None if it accepts the row after all."""
        if law not in self._reasons:
            first = rows.column(STAGED_ROW)[0].as_py()
            try:
                self._copy(rows.slice(number - first, 1))
            except RefusedError as error:
                self._reasons[law] = of_error(error)
        return self._reasons.get(law)

    @cached_property
    def _laws(self) -> list[str]:
        """Return the negated NOT NULLs and checks as SQL conditions, in the order in which the server checks them. Also create the sieve.

        The result is empty if this role may not create temporary tables. Then refused rows are found by bisection.
        """
        with self.connection.cursor() as cursor:
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
        return statement("tideline.sinks.postgres", name).format(
            staging=f"{STAGING_SCHEMA}.{self._staging}", sieve=f"pg_temp.{_SIEVE}", **parts
        )

    def _refusal(self, error: adbc.Error) -> adbc.Error | RefusedError:
        """Return a `RefusedError` if the error is the fault of a row, else the error itself."""
        state = str(error.sqlstate or "")
        if not (isinstance(error, adbc.DataError | adbc.IntegrityError) or state[:2] in OF_A_ROW):
            return error
        message = _server_message(str(error))
        for name in (self._staging, _SIEVE):
            message = message.replace(name, self._target)
        refusal = RefusedError(message)
        refusal.breaks_law = state in _OF_A_LAW
        return refusal


def _server_message(text: str) -> str:
    """Return the server's message and the column that it concerns, without the text that the driver adds."""
    message = re.search(r"ERROR:\s+(.*)", text)
    column = re.search(r"COPY .+, line \d+, column ([^:\n]+)", text)
    where = f"column {column[1]}: " if column else ""
    return where + (message[1] if message else text)
