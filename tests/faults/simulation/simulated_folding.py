"""Simulate what Spark does for a batch of a stateful pipeline: tasks that read and decode, tasks that fold the records of
their keys, and tasks in which timers come. Some of them die and run again.

The folding and the driver, with everything that it publishes, are real. Only the shuffle and the COPY are simulated.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import orjson
import pyarrow as pa

from faults.checker.facts import Record as Read
from faults.memory import MemoryLedger, record
from faults.memory.rows import StagedRow, StagedState
from faults.simulation.simulated_records import Outcome, as_reject
from faults.simulation.simulated_spark import SimulatedSpark, of_executors
from faults.visit_rules import user_of
from faults.visits import Visits
from tideline.declaration.pipelines import Pipeline
from tideline.ledger.attempts import Attempt
from tideline.ledger.folding import SUFFIX
from tideline.sinks.postgres.sink import TableOutput
from tideline.sinks.postgres.state_session import StateSession
from tideline.sinks.postgres.state_staging import StateStage
from tideline.sinks.postgres.task_reports import EXPIRING, FOLDING, TaskReport
from tideline.sinks.sink import Publication, Winner
from tideline.spark_jobs import publishing, stateful, write_batches
from tideline.spark_jobs.folding_tasks import Expiring
from tideline.spark_jobs.readers.task_limits import TaskLimits
from tideline.state.folding import Fold, KeyedRecord, expired
from tideline.state.keys import key_text

TRANSFORMS = Path(__file__).with_name("transforms")
REFUSING, CORRECTED = TRANSFORMS / "refusing", TRANSFORMS / "corrected"
"""The folders of the pipeline before and after the author corrects the transform."""
AT_ONCE = 3
"""Records that are folded at once."""
_TASKS = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GIVEN = pa.schema(
    [
        ("user", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("copies", pa.int32()), ("price", pa.decimal128(12, 4)),
    ]
)  # fmt: skip
_SESSION = SimpleNamespace(range=lambda start, end, *_: range(start, end))


@cache
def version(folder: Path) -> str:
    """Return the version of the processor in a folder, as the ledger records it."""
    return sha256((folder / "transform.py").read_bytes()).hexdigest()[:12]


class FoldingSpark(SimulatedSpark):
    """The executors of the jobs of a stateful pipeline."""

    def prepared(
        self, ledger: MemoryLedger, broker: Any, pipeline: Pipeline, attempt: Attempt, *, spark: Any, read: Any
    ) -> SimpleNamespace:
        given = pipeline.model_copy(update={"folder": REFUSING if self.refuses else CORRECTED})
        folded = stateful.prepared(
            ledger,
            given,
            attempt,
            transform=SimpleNamespace(processor=Visits(refuses=self.refuses)),  # type: ignore[arg-type]  # all that is asked of it
            decoding=SimpleNamespace(steps=SimpleNamespace(rows=_GIVEN)),  # type: ignore[arg-type]
            raw=SimpleNamespace(sparkSession=_SESSION),
            limits=TaskLimits(cores=_TASKS, most=2 * _TASKS, split_records=AT_ONCE),
        )
        assert folded is not None
        output = folded.output(TableOutput(target=self._sink.target, attempt=attempt))
        return SimpleNamespace(broker=broker, pipeline=pipeline, attempt=attempt, output=output, stateful=folded)

    def write(self, ledger: MemoryLedger, loading: SimpleNamespace) -> None:
        attempt = loading.attempt
        stage = loading.output.stage(ledger, None)
        slices = self._slices(ledger, attempt)
        with of_executors():
            found = [one for stream_id, read in slices for one in self._read_task(attempt, stream_id, read)]
            winners = [self._fold_task(attempt, stage, part) for part in _shuffled(found)]

        def run(parts: Iterable[int], expiring: Expiring) -> list[Winner]:
            with of_executors():
                return [self._expire_task(expiring, part) for part in parts]

        publication = Publication(
            ledger=ledger,
            broker=loading.broker,
            pipeline=loading.pipeline,
            attempt=attempt,
            winners=winners + loading.stateful.expired(ledger, stage, winners, run),
            reject=lambda _: 0,
            filtered_by_difference=True,
        )
        publishing.publish(publication, loading.output)
        write_batches._clear(ledger, attempt, loading.output)

    def _read_task(self, attempt: Attempt, stream_id: int, read: Any) -> list[tuple[Read, KeyedRecord]]:
        """Read one slice, and store its counts and the rejects of decoding."""
        while True:
            dies = self._begin_task() % 11
            seen = read()
            decoded = [_decoded(attempt, stream_id, one) for one in seen]
            broken = [one for one, values in zip(seen, decoded, strict=True) if values is None]
            self._step()
            if dies in {0, 1}:
                continue
            counts = [] if not seen else [{
                "stream_id": stream_id, "first_read": seen[0].offset, "last_read": seen[-1].offset, "n_read": len(seen), "n_filtered": 0,
                "n_bytes": sum(len(one.key or b"") + len(one.value or b"") for one in seen),
            }]  # fmt: skip
            rejects = [as_reject(stream_id, one, Outcome(step="decode", reason="not JSON")) for one in broken]
            with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
                record(ledger, attempt, rejects=rejects, counts=counts)
            if dies != 2:
                return [(one, values) for one, values in zip(seen, decoded, strict=True) if values is not None]

    def _fold_task(self, attempt: Attempt, stage: StateStage, given: Sequence[tuple[Read, KeyedRecord]]) -> Winner:
        """Fold the records of some keys, and stage rows and states."""
        while True:
            task = self._begin_task()
            fold = Fold(stage.rules, stage.streams)
            rejects = []
            with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
                session = self._session(ledger, stage, task, FOLDING)
                for start in range(0, len(given), AT_ONCE):
                    part = given[start : start + AT_ONCE]
                    stored = session.stored(fold.not_open(one for _, one in part))
                    counted = {key: one for key, one in stored.items() if one.stream not in stage.anew}
                    folded = fold.fold([one for _, one in part], counted)
                    rejects += [(*part[one.number], one.reason) for one in folded.rejected]
                    session.put(folded)
                    if task % 11 == 0:
                        session.flush()
                        break
                session.put(fold.finish())
                session.flush()
            self._step()
            if task % 11 in {0, 1}:
                continue  # an executor was lost; what it has staged stays behind
            staged = [
                as_reject(one.stream_id, read, Outcome(step="transform", reason=why)) for read, one, why in rejects
            ]
            with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
                record(ledger, attempt, rejects=staged)
            if task % 11 != 2:
                report = TaskReport(
                    phase=FOLDING, n_states=session.n_states, n_expired=session.n_expired, latest=fold.latest
                )
                return report.winner(task, session.n_rows)

    def _expire_task(self, expiring: Expiring, part: int) -> Winner:
        """Let timers come, and stage rows and states."""
        stage = expiring.stage
        while True:
            task = self._begin_task()
            watermarks = {one.stream: one.at for one in expiring.due}
            with MemoryLedger(self._scheduler.database, actor="spark task") as ledger:
                session = self._session(ledger, stage, task, EXPIRING)
                due = session.due(expiring.due, expiring.folding, part, expiring.n_parts, AT_ONCE)
                for folded in expired(stage.rules, due, watermarks):
                    session.put(folded)
                    if task % 11 == 0:
                        break
                session.flush()
            self._step()
            if task % 11 > 1:
                report = TaskReport(phase=EXPIRING, n_states=session.n_states, n_expired=session.n_expired, latest={})
                return report.winner(task, session.n_rows)

    def _begin_task(self) -> int:
        self._tasks += 1
        self._step()
        return self._tasks

    def _session(self, ledger: MemoryLedger, stage: StateStage, task: int, phase: int) -> "MemorySession":
        return MemorySession(
            place=None,  # type: ignore[arg-type]  # it is asked for messages only
            pipeline=stage.pipeline,
            target=stage.target,
            table=stage.table,
            rules=stage.rules,
            ledger=ledger,
            copier=None,  # type: ignore[arg-type]
            task=task,
            phase=phase,
        )


class MemorySession(StateSession):
    """What one task reads and stages, without the COPY."""

    def flush(self) -> None:
        ledger: Any = self.ledger
        columns = tuple(column.name for column in self.target.columns)
        rows = [
            StagedRow(
                row.stream_id, row.offset, self.task, tuple(row.values[name] for name in columns), row.has_expired
            )
            for row in self._rows
        ]
        states = [
            StagedState(
                self.task, self.phase, one.key, one.stream_id, None if one.value is None else orjson.loads(one.value), one.expires_at, one.offset,
            )
            for one in self._kept
        ]  # fmt: skip
        if rows:
            with ledger.transaction():
                ledger.copy(self.table, columns, rows)
        if states:
            with ledger.transaction():
                ledger.copy_states(self.table + SUFFIX, states)
        self.n_rows += len(rows)
        self.n_expired += sum(row.has_expired for row in self._rows)
        self.n_states += len(states)
        self._rows, self._kept, self._bytes = [], [], 0


def _shuffled(found: Iterable[tuple[Read, KeyedRecord]]) -> list[list[tuple[Read, KeyedRecord]]]:
    """Return the records of each task in order of stream and offset, those of a key in one task. Some tasks have none."""
    parts: list[list[tuple[Read, KeyedRecord]]] = [[] for _ in range(_TASKS)]
    for pair in sorted(found, key=lambda pair: pair[1][1:3]):
        parts[crc32(pair[1].key.encode()) % _TASKS].append(pair)
    return parts


def _decoded(attempt: Attempt, stream_id: int, read: Read) -> KeyedRecord | None:
    """Return the record with its columns; None if it cannot be decoded."""
    columns = _columns(read.value)
    if columns is None:
        return None
    place = next((piece.topic, piece.partition) for piece in attempt.ranges if piece.stream_id == stream_id)
    at = None if read.timestamp_ms is None else _EPOCH + timedelta(milliseconds=read.timestamp_ms)
    kafka = {"topic": place[0], "partition": place[1], "offset": read.offset, "timestamp": at, "headers": None}
    return KeyedRecord(key_text([columns["user"]]), stream_id, read.offset, {**columns, "kafka": kafka})


@cache
def _columns(value: bytes | None) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(value or b"")
    except ValueError:
        return None
    return {**found, "user": user_of(found["id"]), "price": Decimal(str(found["price"]))}
