"""One Delta table as a log: open it, and commit from exactly the version that was opened. The one door to a table: everything that writes passes it.

A commit is one file of the log, named by its number, and storage creates it only if it does not exist. delta-rs can also
move a commit behind those of others, after a check for conflicts. That is not used: its check lets a removal pass
whose file a compaction has rewritten, and the rows are there twice. So every commit goes to the version behind the one
that was looked at, or fails. And it is refused if that version has a feature that is not kept, see `delta_features`: the table may
have got it since the commit was prepared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.sinks.delta import delta_disk, delta_features, places
from tideline.sinks.delta.delta_features import Unkept
from tideline.sinks.kind import section

Change = AddAction | RemoveAction

_PUT_IF_ABSENT = {"aws_conditional_put": "etag"}
"""Makes S3 refuse to overwrite a commit: the second PUT of a file of the log fails."""
_LEFT_AS_THEY_ARE = "!$&'()+,/:;=@~"
"""Characters that the library does not encode in a path, besides letters, digits and `_.-`."""
_OF_STORAGE = (
    "Failed to commit transaction",
    "Tried committing existing table version",
    "Log storage error",
    "Transaction failed",
)
"""How the library's errors of storage begin, and those of a version that is taken. Everything else is a refusal."""


class TakenError(Exception):
    """Another commit has taken the version, or this one has and its answer was lost. Look again."""


class UnknownError(Exception):
    """The commit failed for another reason, perhaps after it had happened. Look again."""


class RefusedTableError(Exception):
    """The table was not written, and is not as long as it stays as it is.

    Args:
        problem: Why.
        unkept: Its features that a commit would break.
    """

    def __init__(self, problem: str, unkept: Sequence[Unkept] = ()) -> None:
        super().__init__(problem)
        self.unkept = unkept


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a table is, and how to reach it."""

    pipeline: str
    uri: str
    options: Mapping[str, str] = field(repr=False)  # holds passwords

    def open(self) -> DeltaTable | None:
        """Load the newest version of the table; None if there is no table.

        Raises:
            RetryableError: Storage did not answer.
        """
        try:
            return DeltaTable(self.uri, storage_options=dict(self.options))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self.unavailable(error) from error

    def unavailable(self, error: Exception) -> TidelineError:
        """Return the error to raise for an error of storage or of the library."""
        return RetryableError(
            f"{self.pipeline}: the Delta table {self.uri} cannot be read or written: {first_line(error)}",
            next_step="run the task again; if it stays so, check sink.path, sink.storage and the rights: tideline doctor",
            entry="delta-table-does-not-answer",
        )


def of(pipeline: Pipeline) -> Location:
    """Return where the pipeline's table is, with values from the environment.

    Raises:
        FatalError: A variable is not set, or the path is relative.
    """
    sink = section(pipeline, DeltaSink)
    uri = places.delta_address(pipeline, sink)
    options = {key: places.storage_value(pipeline, f"storage.{key}", value) for key, value in sink.storage.items()}
    return Location(pipeline=pipeline.name, uri=uri, options=safe(uri, options))


def safe(uri: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with what makes storage refuse to overwrite a commit."""
    return {**options, **(_PUT_IF_ABSENT if uri.startswith("s3://") else {})}


def commit(
    table: DeltaTable,
    changes: Sequence[Change],
    *,
    transaction: tuple[str, int] | None,
    metadata: Mapping[str, Any],
    schema: Any = None,
) -> None:
    """Commit behind the version that `table` was loaded at. Either all of it happens, or nothing. It is on disk when this returns.

    Args:
        table: The table as it was when the decision to commit was made.
        changes: Files to add and to remove.
        transaction: Application id and version to store with it.
        metadata: Stored with the commit, for its history.
        schema: The new columns of a table without files. None leaves them as they are.

    Raises:
        TakenError: The table has changed since it was loaded.
        RefusedTableError: The table has a feature that is not kept, or the library refuses it. Nothing was changed.
        UnknownError: Something else went wrong. The commit may have happened.
    """
    replaces = any(isinstance(change, RemoveAction) and change.data_change for change in changes)
    if unkept := delta_features.unkept(table, replaces=replaces):
        raise RefusedTableError(delta_features.said(unkept), unkept)
    properties = CommitProperties(
        app_transactions=[Transaction(*transaction)] if transaction else None,
        custom_metadata=dict(metadata),
        max_commit_retries=0,
    )
    try:
        delta_disk.flush_files(table, [change.path for change in changes if isinstance(change, AddAction)])
        table.create_write_transaction(
            list(changes),
            mode="append" if schema is None else "overwrite",
            schema=table.schema() if schema is None else schema,
            partition_by=table.metadata().partition_columns,
            commit_properties=properties,
        )
        delta_disk.flush_log(table)
    except CommitFailedError as error:
        raise _failure(table, first_line(error)) from error
    except (DeltaError, OSError) as error:
        raise UnknownError(first_line(error)) from error


def add_columns(table: DeltaTable, columns: pa.Schema) -> None:
    """Add columns, which are null in all rows that are there, behind the version that `table` was loaded at.

    Raises:
        TakenError: The table has changed since it was loaded.
        RefusedTableError: The table has a feature that is not kept, or the library refuses it. Nothing was changed.
        UnknownError: Something else went wrong. The commit may have happened.
    """
    fields = Schema.from_arrow(columns).fields
    _alter(table, lambda once: table.alter.add_columns(list(fields), commit_properties=once))


def set_properties(table: DeltaTable, properties: Mapping[str, str]) -> None:
    """Set properties of the table, behind the version that `table` was loaded at.

    Raises:
        TakenError: The table has changed since it was loaded.
        RefusedTableError: The table has a feature that is not kept, or the library refuses it. Nothing was changed.
        UnknownError: Something else went wrong. The commit may have happened.
    """
    _alter(
        table,
        lambda once: table.alter.set_table_properties(
            dict(properties), raise_if_not_exists=False, commit_properties=once
        ),
    )


def _alter(table: DeltaTable, alter: Callable[[CommitProperties], None]) -> None:
    if unkept := delta_features.unkept(table, replaces=False):
        raise RefusedTableError(delta_features.said(unkept), unkept)
    try:
        alter(CommitProperties(max_commit_retries=0))
    except CommitFailedError as error:
        raise _failure(table, first_line(error)) from error
    except (DeltaError, OSError) as error:
        raise UnknownError(first_line(error)) from error


def _failure(table: DeltaTable, problem: str) -> TakenError | UnknownError | RefusedTableError:
    """Return what a commit that has failed means. Only a version behind the one that was loaded tells a lost race from a refusal."""
    try:
        newest = DeltaTable(table.table_uri, storage_options=table._storage_options)  # noqa: SLF001 - it has no name
        is_taken = newest.version() > table.version()
    except (DeltaError, OSError) as error:
        return UnknownError(first_line(error))
    if is_taken:
        return TakenError(problem)
    return UnknownError(problem) if problem.startswith(_OF_STORAGE) else RefusedTableError(problem)


def first_line(error: Exception) -> str:
    """Return what an error of the library says, without its hints."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def plain_path(path: str) -> str:
    """Return the path of a file as storage has it. The log has it encoded, and a removal is encoded again when it is written.

    Raises:
        FatalError: The removal would name another path than the log does. It would remove nothing, and the rows would be there twice.
    """
    plain = unquote(path)
    if quote(plain, safe=_LEFT_AS_THEY_ARE) != path:
        raise FatalError(
            f"the log names the file {path} in a way in which it cannot be removed: expected {quote(plain, safe=_LEFT_AS_THEY_ARE)}",
            next_step="let the program that has written the file write its rows again, for example by a compaction",
            entry="delta-file-cannot-be-replaced",
        )
    return plain
