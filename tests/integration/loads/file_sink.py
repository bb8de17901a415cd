"""The smallest outside sink: rows are staged in files, and a commit appends one line to a log, under a lock.

docs/contributing-a-sink.md explains it step by step. It is complete, and correct on one machine.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO
from uuid import UUID

import pyarrow as pa

from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.domain.receipts import BatchIdentity, Found, Receipt, committed_by, data, found, marker, needs_marker
from tideline.domain.states import BatchKind
from tideline.errors import RetryableError, SupersededError
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.ledger.publishing import Written
from tideline.records.kafka_metadata import stream_ids
from tideline.records.staged_counts import Recorder
from tideline.sinks.sink import Publication, StagedCommit, StagingPlace, Winner


@dataclass(frozen=True, slots=True)
class FileLog:
    """A folder whose file `log` has one line for each marker and each commit."""

    folder: Path

    @property
    def remembers_days(self) -> float | None:
        """For ever."""
        return None

    @contextmanager
    def _locked(self) -> Iterator[tuple[list[Any], TextIO]]:
        """Yield the lines, and the file to which to append. No other process changes it meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield [json.loads(line) for line in file], file

    def fence(self, batch: BatchIdentity, fence: int) -> Receipt | None:
        """Append a marker if attempts below `fence` could still commit. Return the receipt, if there is one."""
        with self._locked() as (lines, file):
            version, receipt = _newest(lines, batch)
            if needs_marker(version, fence):
                file.write(json.dumps({"batch": str(batch.identity), "version": marker(fence)}) + "\n")
            return receipt

    def look(self, batch: BatchIdentity) -> Receipt | None:
        """Return the receipt of a batch."""
        with self._locked() as (lines, _):
            return _newest(lines, batch)[1]

    def commit(self, batch: BatchIdentity, own: Receipt, rows: list[Any], replaced: list[Any]) -> Receipt:
        """Append the rows of a batch, with its receipt, if the attempt may commit: compare and set, under the lock.

        Raises:
            SupersededError: It may not. Nothing of it is visible.
        """
        with self._locked() as (lines, file):
            version, receipt = _newest(lines, batch)
            match found(version, receipt, own=own):
                case Found.SUPERSEDED:
                    raise SupersededError(f"{batch} has version {version}", next_step="nothing")
                case Found.FREE:
                    line = {"batch": str(batch.identity), "version": data(own.fence), "attempt": str(own.attempt)}
                    file.write(json.dumps({**line, "rows": rows, "replaced": replaced}) + "\n")
            return own

    def identities(self) -> list[UUID]:
        """Return the batches that have a line."""
        with self._locked() as (lines, _):
            return [UUID(name) for name in dict.fromkeys(line["batch"] for line in lines)]

    def rows(self) -> list[Any]:
        """Return what readers see: the rows of all commits, without those that a replay has replaced."""
        with self._locked() as (lines, _):
            seen: list[Any] = []
            for line in lines:
                if "rows" in line:
                    seen = [row for row in seen if not any(_is_in(row, piece) for piece in line["replaced"])]
                    seen += line["rows"]
            return seen


def _newest(lines: Iterable[Any], batch: BatchIdentity) -> tuple[int | None, Receipt | None]:
    """Return the version of a batch, and its receipt if that is data."""
    own = [line for line in lines if line["batch"] == str(batch.identity)]
    version = own[-1]["version"] if own else None
    fence = committed_by(version)
    return version, None if fence is None else Receipt(fence=fence, attempt=UUID(own[-1]["attempt"]))


def _is_in(row: Any, piece: Any) -> bool:
    return bool(row[:2] == piece[:2] and piece[2] <= row[2] < piece[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStage:
    """Writes the rows of one task to a file of its own, which no reader knows."""

    folder: str
    place: StagingPlace

    def store(self, tables: Iterable[pa.Table], recorder: Recorder, task: int) -> Winner:
        """Store the stream and the offset of each row."""
        rows: list[Any] = []
        for table in tables:
            kafka = table.column("kafka").combine_chunks()
            rows += zip(
                stream_ids(kafka, self.place.streams).to_pylist(), kafka.field("offset").to_pylist(), strict=True
            )
        file = Path(self.folder) / f"attempt_{self.place.attempt}_task_{task}"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as new:
            json.dump(rows, new)
        return Winner(task, len(rows), str(file))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutput:
    """The output of one attempt."""

    log: FileLog
    attempt: Attempt

    def describe(self) -> str:
        """Return the folder."""
        return str(self.log.folder)

    def stage(self, ledger: Ledger, place: StagingPlace) -> FileStage:
        """Return what each task needs."""
        return FileStage(folder=str(self.log.folder / "staged"), place=place)

    def _rows(self, publication: Publication) -> list[Any]:
        files = [Path(winner.staged) for winner in publication.winners if winner.staged]
        if missing := [file for file in files if not file.exists()]:
            raise RetryableError(f"{self.attempt}: staged files are gone: {missing}", next_step="run the task again")
        return sorted(row for file in files for row in json.loads(file.read_text(encoding="utf-8")))

    def count(self, publication: Publication) -> StagedCommit:
        """Count the rows of the winners, and the offsets that they are of."""
        rows = self._rows(publication)
        offsets = sorted({(stream, offset) for stream, offset in rows})
        streams = [stream for stream, _ in offsets]
        return StagedCommit(Written(n_written={one: streams.count(one) for one in streams}, offsets=offsets), len(rows))

    def commit(self, publication: Publication, staged: StagedCommit) -> Receipt:
        """Append the rows of the winners to the log."""
        places = {piece.stream_id: [str(piece.topic_id), piece.partition] for piece in self.attempt.ranges}
        rows = [[*places[stream], offset] for stream, offset in self._rows(publication)]
        replaced = [
            [*places[piece.stream_id], piece.offsets.start, piece.offsets.end]
            for piece in self.attempt.ranges
            if self.attempt.kind is BatchKind.REPLAY
        ]
        return self.log.commit(self.attempt.batch, self.attempt.receipt, rows, replaced)

    def clear(self, ledger: Ledger) -> None:
        """Leave the files: they are small."""


class FileSink:
    """Folders."""

    def prepare(self, ledger: Ledger, pipeline: Pipeline, attempt: Attempt, produced: pa.Schema) -> FileOutput:
        """Return the output. Any column fits."""
        return FileOutput(log=log_of(pipeline), attempt=attempt)


def log_of(pipeline: Pipeline) -> FileLog:
    """Return the part of the sink that the ledger asks. The tests declare a folder, as a Delta table has one."""
    assert isinstance(pipeline.sink, DeltaSink)
    return FileLog(Path(str(pipeline.sink.path)))
