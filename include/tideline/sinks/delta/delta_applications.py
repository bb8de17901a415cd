"""What the log of a Delta table calls a batch: its application id, and what each commit says of its batch.

The id has the random identity of the batch, not its number, which a ledger that was restored gives to another batch.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from tideline.domain import receipts
from tideline.domain.receipts import IDENTITY, BatchIdentity, Receipt
from tideline.sinks.delta import delta_files
from tideline.sinks.delta.delta_log import Location

_LOG = "_delta_log"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
"""Its version, and of how many files it consists."""
_COMMIT = re.compile(r"(\d{20})\.json")


class Signed(NamedTuple):
    """What a commit says of its batch. The number of the batch is for people: another ledger may give it to another one."""

    transaction: tuple[str, int]
    """Application id, and the version that it has from then on."""
    metadata: dict[str, str]


def name(pipeline: str, identity: UUID) -> str:
    """Return the application id of a batch."""
    return f"tideline/{pipeline}/{identity}"


def marker(pipeline: str, batch: BatchIdentity, fence: int) -> Signed:
    """Return what the commit says that fences the attempts below `fence`."""
    return _signed(pipeline, batch, receipts.marker(fence), tideline_fenced_below=str(fence))


def data(pipeline: str, batch: BatchIdentity, own: Receipt, ranges: str) -> Signed:
    """Return what the commit says that has the rows of an attempt."""
    said = {"tideline_fence": str(own.fence), "tideline_attempt": str(own.attempt), "tideline_ranges": ranges}
    return _signed(pipeline, batch, receipts.data(own.fence), **said)


def _signed(pipeline: str, batch: BatchIdentity, version: int, **said: str) -> Signed:
    application = name(pipeline, batch.identity)
    named = {"tideline_application": application, "tideline_batch": str(batch.batch_id)}
    return Signed((application, version), {**named, **said})


def identities(location: Location, table: DeltaTable) -> list[UUID]:
    """Return the batches of the pipeline whose application ids the table has a version of, each once.

    The library looks up one id at a time. So the log is read: its newest checkpoint, and the commits after it. Ids stay in
    the log for ever.

    Raises:
        RetryableError: Storage did not answer.
    """
    wanted = re.compile(rf"tideline/{re.escape(location.pipeline)}/({IDENTITY})")
    files = delta_files.filesystem(location)
    try:
        found = dict.fromkeys(_applications(files, table.version()))
    except OSError as error:
        raise location.unavailable(error) from error
    return [UUID(match[1]) for one in found if (match := wanted.fullmatch(one))]


def _applications(files: fs.FileSystem, newest: int) -> Iterator[str]:
    listed = [info.base_name for info in files.get_file_info(fs.FileSelector(_LOG))]
    begin, checkpoint = _newest_checkpoint(listed, newest)
    for part in checkpoint:
        with files.open_input_file(f"{_LOG}/{part}") as source:
            for row in pq.ParquetFile(source).read(["txn"]).column("txn").drop_null().to_pylist():
                yield row["appId"]
    commits = sorted(base for base in listed if (match := _COMMIT.fullmatch(base)) and begin < int(match[1]) <= newest)
    for base in commits:
        with files.open_input_stream(f"{_LOG}/{base}") as source:
            actions: list[dict[str, Any]] = [json.loads(line) for line in source.read().splitlines() if line.strip()]
        yield from (action["txn"]["appId"] for action in actions if "txn" in action)


def _newest_checkpoint(listed: list[str], newest: int) -> tuple[int, list[str]]:
    """Return the version of the newest complete checkpoint, and its files; -1 and none if there is none."""
    parts: dict[tuple[int, int], list[str]] = {}
    for base in sorted(listed):
        if (match := _CHECKPOINT.fullmatch(base)) and int(match[1]) <= newest:
            parts.setdefault((int(match[1]), int(match[2] or 1)), []).append(base)
    complete = [(version, files) for (version, n_parts), files in parts.items() if len(files) == n_parts]
    return max(complete, default=(-1, []))
