"""Try whether the storage of a Delta table keeps the promise that commits rest on: of two that want one version, one is refused."""

import threading
from uuid import uuid4

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from tideline.declaration.pipelines import Pipeline
from tideline.sinks.delta import delta_errors, delta_features, delta_files, delta_log, delta_table
from tideline.sinks.delta.delta_log import Location, RefusedTableError, TakenError, UnknownError
from tideline.sinks.evidence import Evidence

_ROUNDS = 5


def of_pipeline(pipeline: Pipeline, known: Evidence) -> str | None:
    """Try the storage of a pipeline's table, as `probe` does.

    Raises:
        NeedsOperatorError: The table must exist and does not. Nothing was tried.
        FatalError: The table has a feature that is not kept. Nothing was tried.
        RetryableError: Storage did not answer, or refuses the access.
    """
    output = delta_table.sink(pipeline, known)
    table = output.open()
    if table is not None and (unkept := delta_features.unkept(table)):
        raise delta_errors.refused(output.location, "doctor", RefusedTableError(delta_features.said(unkept), unkept))
    return probe(output.location)


def probe(location: Location) -> str | None:
    """Commit to a scratch table from two handles at the same time, a few times. Return what is wrong; None if one is refused each time.

    The scratch table lies below the table's folder, and is removed afterwards.

    Raises:
        RetryableError: Storage did not answer, or refuses the access.
    """
    folder = f"{delta_files.ROOT}/doctor/{uuid4().hex}"
    scratch = Location(pipeline=location.pipeline, uri=f"{location.uri}/{folder}", options=location.options)
    try:
        DeltaTable.create(scratch.uri, pa.schema([("a", pa.int64())]), storage_options=dict(scratch.options))
        problems = [_race(scratch, number) for number in range(_ROUNDS)]
    except (DeltaError, OSError) as error:
        raise location.unavailable(error) from error
    finally:
        _remove(location, folder)
    return next((problem for problem in problems if problem), None)


def _race(scratch: Location, number: int) -> str | None:
    tables = [scratch.open(), scratch.open()]
    start = threading.Barrier(len(tables))
    outcomes: list[str] = []

    def commit(table: DeltaTable) -> None:
        start.wait()
        try:
            delta_log.commit(table, [], transaction=("doctor", number), metadata={})
        except TakenError:
            outcomes.append("refused")
        except (UnknownError, RefusedTableError) as error:
            outcomes.append(str(error))
        else:
            outcomes.append("committed")

    threads = [threading.Thread(target=commit, args=(table,)) for table in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if sorted(outcomes) == ["committed", "refused"]:
        return None
    return f"of two commits to one version expected one to be refused, found: {' and '.join(sorted(outcomes))}"


def _remove(location: Location, folder: str) -> None:
    """Remove the scratch table, as far as the storage lets us."""
    files = delta_files.filesystem(location)
    try:
        found = files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        delta_files.remove(location, [one.path for one in found if one.type is fs.FileType.File])
        delta_files.remove_empty(location, folder)
    except OSError as error:
        raise location.unavailable(error) from error
