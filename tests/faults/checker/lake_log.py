"""Reads a Delta table in a folder from the entries of its log and its Parquet files, without the library that writes it."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow.parquet as pq

from faults.checker.facts import Commit, Found, Row, Stream, Violation

_IDENTITY = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
Place = tuple[UUID, int]
"""Topic id and partition."""
_COORDINATES = ["kafka_topic_id", "kafka_partition", "kafka_offset", "tideline_batch"]


class LakeLog:
    """The table of one pipeline. Reads each entry and each file once.

    Args:
        folder: The table's folder, which need not exist yet.
        pipeline: The pipeline, by which the table names its batches.
        columns: The columns of the rows' values.
    """

    def __init__(self, folder: Path, pipeline: str, columns: Sequence[str]) -> None:
        self._folder, self._columns = folder, list(columns)
        self._application = re.compile(rf"tideline/{re.escape(pipeline)}/({_IDENTITY})")
        self._n_entries = 0
        self._files: set[str] = set()
        """Those that the newest version has."""
        self._known: set[str] = set()
        """Those that any version has had."""
        self._rows: dict[str, list[tuple[Place, Row]]] = {}
        """By file."""
        self._versions: dict[str, int] = {}
        """By the name of a batch, the version that the table keeps of it."""
        self.commits: list[Commit] = []
        self.broken: list[Violation] = []

    def read(self) -> None:
        """Read what is new."""
        while (path := self._folder / "_delta_log" / f"{self._n_entries:020}.json").exists():
            self._take([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
            self._n_entries += 1
        for file in self._files - self._rows.keys():
            self._rows[file] = list(self._of_file(file))

    def files(self) -> Collection[str]:
        """Return the files of the newest version that was read."""
        return frozenset(self._files)

    def known(self) -> Collection[str]:
        """Return the files that any version has had."""
        return frozenset(self._known)

    def _take(self, actions: Sequence[Mapping[str, Any]]) -> None:
        entry = f"entry {self._n_entries} of {self._folder.parent.name}"
        n_rows = 0
        for action in actions:
            match action:
                case {"add": {"path": path, "stats": stats}}:
                    if path in self._files:
                        self.broken.append(Violation("doubled", entry, f"adds {path}, which the table has"))
                    self._files.add(path)
                    self._known.add(path)
                    n_rows += json.loads(stats)["numRecords"]
                case {"remove": {"path": path}}:
                    if path not in self._files:
                        self.broken.append(Violation("lost", entry, f"removes {path}, which the table does not have"))
                    self._files.discard(path)
        [made] = [action["commitInfo"] for action in actions if "commitInfo" in action]
        for name, version in [(one["txn"]["appId"], one["txn"]["version"]) for one in actions if "txn" in one]:
            if not self._application.fullmatch(name):
                self.broken.append(Violation("committed", entry, f"{name} names no batch by its identity"))
            batch_id = int(made["tideline_batch"])
            if version <= self._versions.get(name, 0):
                text = f"batch {batch_id} goes from version {self._versions[name]} to {version}"
                self.broken.append(Violation("committed", entry, text))
            self._versions[name] = version
            if version % 2:  # rows; an even one is a marker that keeps attempts from committing
                self.commits.append(Commit(batch_id, UUID(made["tideline_attempt"]), n_rows))

    def _of_file(self, file: str) -> Iterator[tuple[Place, Row]]:
        try:
            found = pq.ParquetFile(self._folder / unquote(file)).read([*_COORDINATES, *self._columns])
        except FileNotFoundError:
            self.broken.append(Violation("lost", file, "the table names this file, and it is not there"))
            return
        for topic, partition, offset, batch_id, *values in zip(
            *(column.to_pylist() for column in found.columns), strict=True
        ):
            yield (UUID(topic), partition), Row(offset, batch_id, tuple(values))

    def shown_in(self, found: Found) -> Found:
        """Return what was found in the ledger, with this table as the output."""
        rows: dict[Place, list[Row]] = defaultdict(list)
        for file in self._files:
            for place, row in self._rows[file]:
                rows[place].append(row)
        known = {(stream.topic_id, stream.partition) for stream in found.streams}

        def of_stream(stream: Stream) -> Iterator[Row]:
            return iter(sorted(rows.get((stream.topic_id, stream.partition), ())))

        return replace(found, rows=of_stream, strangers=sorted(rows.keys() - known), commits=list(self.commits))
