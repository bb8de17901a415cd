"""Remove staged files that can never be committed. The table itself says which: the version of a batch in it only rises.

The law: a file is removed only if it is in no version of the table, and its attempt cannot commit it any more. The crash
that would break it: a look at the version before an attempt commits, and the removal after it. So only those attempts
count that the version has ruled out for ever.
"""

import shutil
from collections.abc import Collection, Iterable
from itertools import groupby
from pathlib import Path
from uuid import UUID

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tideline.domain import receipts
from tideline.sinks.delta import delta_files
from tideline.sinks.delta.delta_files import StagedFile
from tideline.sinks.delta.delta_table import DeltaOutput


def clear(output: DeltaOutput, identity: UUID, own: UUID, kept: Collection[str]) -> None:
    """Remove what the attempts at a batch have staged that `own` has committed, apart from the files that were committed.

    Raises:
        RetryableError: Storage did not answer. Upkeep removes the files later.
    """
    table = output.open()
    if table is None:
        return
    version = output.version(table, identity)
    for file in delta_files.staged(output.location, identity):
        if _ruled_out(version, file.fence) or (file.attempt == own and file.path not in kept):
            delta_files.remove(output.location, [file.path])


def remove_dead(output: DeltaOutput) -> int:
    """Remove the files of all attempts that can no longer commit, and those that committed attempts have left over. Return how many.

    Raises:
        RetryableError: Storage did not answer.
    """
    table = output.open()
    if table is None:
        return 0
    left_over = {*_unreferenced(output, table)}
    n_removed = 0
    found = sorted(delta_files.staged(output.location))
    for identity, files in groupby(found, key=lambda file: file.batch):
        version = output.version(table, identity)
        n_removed += delta_files.remove(output.location, _dead(version, files, left_over))
    n_removed += delta_files.remove(
        output.location, [path for path in left_over if path.startswith(delta_files.MERGED)]
    )
    _remove_fragments(output, table)
    return n_removed


def remove_replaced(output: DeltaOutput) -> int:
    """Remove files that were replaced longer ago than the table's retention. Return how many.

    The library's own vacuum is not used: as long as the log names such a file, it deletes it again and commits that it has.

    Raises:
        RetryableError: Storage did not answer.
    """
    table = output.open()
    if table is None:
        return 0
    try:
        replaced = {*table.vacuum(dry_run=True, full=False)}
    except (DeltaError, OSError) as error:
        raise output.location.unavailable(error) from error
    return delta_files.remove(output.location, sorted(replaced & delta_files.everything(output.location)))


def _dead(version: int | None, files: Iterable[StagedFile], left_over: set[str]) -> list[str]:
    committed = receipts.committed_by(version)
    return [
        file.path
        for file in files
        if _ruled_out(version, file.fence) or (file.fence == committed and file.path in left_over)
    ]


def _ruled_out(version: int | None, fence: int) -> bool:
    """Return whether an attempt has not committed, and never will."""
    committed = receipts.committed_by(version)
    if committed is not None:
        return fence != committed
    return receipts.marker(fence) < (version or 0)


def _unreferenced(output: DeltaOutput, table: DeltaTable) -> list[str]:
    """Return files that no version within the table's retention has, and that are older than the retention. Tasks that lost leave such files."""
    try:
        found = table.vacuum(dry_run=True, full=True)
    except (DeltaError, OSError) as error:
        raise output.location.unavailable(error) from error
    return sorted({*found} & delta_files.everything(output.location))  # it names those that are gone, too


def _remove_fragments(output: DeltaOutput, table: DeltaTable) -> None:
    """Remove the folders of attempts that never committed, with what no listing shows. An object store has no folders."""
    if not output.location.uri.startswith("/"):
        return
    root = Path(output.location.uri)
    for folder in root.glob(f"{delta_files.ROOT}/*/*-*"):
        owner = delta_files.of_path(f"{folder.relative_to(root)}/any")
        if owner is not None and _ruled_out(output.version(table, owner.batch), owner.fence):
            shutil.rmtree(folder, ignore_errors=True)
