"""Provide the part of Spark that the job uses, in this process and without a JVM.

The tasks are the job's own and are retried as Spark does. The records come from the log of the conductor.
"""

import json
import threading
import traceback
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain, count, islice, pairwise
from typing import Any

import pyarrow as pa
from pyspark import SparkConf, TaskContext
from pyspark.errors import PySparkException, PythonException

from faults import records
from faults.checker.facts import Record
from faults.processes.gate import Gate
from tideline.records.transforms import KAFKA

TASK_TRIES = 2
_ROWS_AT_ONCE = 4
"""Rows of an Arrow batch. Each batch is one COPY, so a task that dies halfway leaves some rows behind."""

Batches = Iterator[pa.RecordBatch]
Read = Callable[[], Batches]


class Again(StrEnum):
    """Reasons why a task runs twice although it did not fail."""

    DIES = "dies"
    """Its executor is lost in the middle of the task."""
    LOSES = "loses"
    """A speculative copy of it was as fast, and won."""


@dataclass(slots=True)
class Spark:
    """The Spark session.

    Args:
        gate: Asks the log for records.
        again: The tasks of each job that run twice, by number.
    """

    gate: Gate
    again: Mapping[int, Again] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    attempts: Iterator[int] = field(default_factory=count)

    @property
    def sparkContext(self) -> "Spark":  # noqa: N802 - Spark's name
        """Return an object with the methods of a context that the job calls."""
        return self

    @property
    def master(self) -> str:
        """Return a local one: the tasks of this process have its code already."""
        return "local"

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
        """Return the smallest value, so that tasks share as many ranges as possible."""
        return 1

    def getConf(self) -> SparkConf:  # noqa: N802 - Spark's name
        """Return a configuration in which nothing is set."""
        return SparkConf(loadDefaults=False)

    def cancelAllJobs(self) -> None:  # noqa: N802 - Spark's name
        """Cancel all tasks. The heartbeat thread calls this when a newer attempt has the batch."""
        self.cancelled.set()

    def range(self, start: int, end: int, step: int, partitions: int) -> "Frame":
        """Return the numbers of [start, end), one in each partition."""
        assert (step, partitions) == (1, max(1, end - start))
        return Frame(self, [partial(_number, number) for number in range(start, end)])

    def kafka(self, options: Mapping[str, str]) -> "Frame":
        """Replace `reading.load`: read what the log holds when the tasks run, by name and offset as Kafka's consumer
        does."""
        starts, ends = json.loads(options["startingOffsets"]), json.loads(options["endingOffsets"])
        size = int(options["maxRecordsPerPartition"])
        parts: list[Read] = []
        for topic, partitions in json.loads(options["assign"]).items():
            for partition in partitions:
                start, end = (bounds[topic][str(partition)] for bounds in (starts, ends))
                places = [(topic, partition, low, min(low + size, end)) for low in range(start, end, size)]
                parts += [partial(self._fetch, *place) for place in places]
        return Frame(self, parts)

    def _fetch(self, topic: str, partition: int, start: int, end: int) -> Batches:
        incarnation, log_start, log_end = self.gate.ask("task: read", "read", topic, partition)
        if start < log_start or end > log_end:
            raise PySparkException(f"KafkaIllegalStateException: Cannot fetch offset {start} (failOnDataLoss)")
        found = records.records(incarnation, partition, start, end)
        while part := list(islice(found, _ROWS_AT_ONCE)):
            yield _batch(topic, partition, part)


def _in_turn(parts: list[Read]) -> Batches:
    return _rebatched(chain.from_iterable(part() for part in parts))


def _rebatched(batches: Batches) -> Batches:
    """Combine rows of several partitions in one batch, as Spark's Arrow batches do."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _number(number: int) -> Batches:
    yield pa.record_batch({"id": [number]})


def _batch(topic: str, partition: int, part: list[Record]) -> pa.RecordBatch:
    columns = {
        "topic": [topic] * len(part),
        "partition": [partition] * len(part),
        "offset": [record.offset for record in part],
        "timestamp": [None if record.timestamp_ms is None else record.timestamp_ms * 1000 for record in part],
        "key": [record.key for record in part],
        "value": [record.value for record in part],
        "headers": [_json(record) for record in part],
    }
    arrays = [
        pa.array(columns[of.name], pa.int64() if of.name == "timestamp" else of.type).cast(of.type) for of in KAFKA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(KAFKA)))


def _json(record: Record) -> str | None:
    """Encode headers as Spark's `to_json` does: a null field is left out."""
    if record.headers is None:
        return None
    return json.dumps(
        [
            {"key": key, **({} if value is None else {"value": b64encode(value).decode()})}
            for key, value in record.headers
        ],
        separators=(",", ":"),
    )


class TaskDiedError(Exception):
    """An executor was lost."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Partitions, and the functions that tasks apply to them. No task runs before `collect`."""

    spark: Spark
    parts: list[Read]
    functions: tuple[Callable[[Batches], Batches], ...] = ()

    @property
    def sparkSession(self) -> Spark:  # noqa: N802 - Spark's name
        """Return its session."""
        return self.spark

    def mapInArrow(self, function: Callable[[Batches], Batches], schema: object) -> "Frame":  # noqa: N802
        """Add one more function to the same tasks."""
        return Frame(self.spark, self.parts, (*self.functions, function))

    def coalesce(self, tasks: int) -> "Frame":
        """Return fewer tasks, each reading several partitions in order, grouped as Spark does without preferred
        locations."""
        size = len(self.parts)
        bounds = [number * size // tasks for number in range(min(tasks, size) + 1)]
        groups = [self.parts[low:high] for low, high in pairwise(bounds)]
        return Frame(self.spark, [partial(_in_turn, group) for group in groups])

    def repartitionById(self, tasks: int, column: str) -> "Frame":  # noqa: N802 - Spark's name
        """Return so many tasks, each with the rows whose number in a column is its own modulo the tasks, after the tasks before have run."""
        shuffle = Shuffle(self, tasks, column)
        return Frame(self.spark, [partial(shuffle.part, number) for number in range(tasks)])

    def sortWithinPartitions(self, *columns: str) -> "Frame":  # noqa: N802 - Spark's name
        """Sort the rows of each task."""
        return self.mapInArrow(partial(_sorted, columns), None)

    def union(self, other: "Frame") -> "Frame":
        """Return the tasks of both frames."""
        return Frame(self.spark, [*self.parts, *other.parts])

    def collect(self) -> list[tuple[Any, ...]]:
        """Run the tasks; return the rows of the winning ones. A row of Spark is a tuple."""
        return [tuple(row.values()) for batch in self.results() for row in batch.to_pylist()]

    def results(self) -> list[pa.RecordBatch]:
        """Run the tasks; return what the winning ones give."""
        return [batch for number, part in enumerate(self.parts) for batch in self._settled(number, part)]

    def _settled(self, number: int, part: Read) -> list[pa.RecordBatch]:
        again = self.spark.again.get(number)
        if again is Again.LOSES:
            with suppress(Exception):  # only one of the two copies has to succeed
                self._task(part)
        failed = 0
        while True:
            if self.spark.cancelled.is_set():
                raise PySparkException("Job aborted: cancelled as part of cancellation of all jobs")
            try:
                return self._task(part, dies=again is Again.DIES)
            except TaskDiedError:
                again = None
            except Exception as error:
                failed += 1
                if isinstance(error, PySparkException):
                    raise
                if failed == TASK_TRIES:
                    raise PythonException(
                        f"Job aborted: Task {number} failed {failed} times:\n{traceback.format_exc()}"
                    ) from error

    def _task(self, part: Read, *, dies: bool = False) -> list[pa.RecordBatch]:
        context = TaskContext._getOrCreate()
        context._taskAttemptId = next(self.spark.attempts)
        batches = _halfway(part()) if dies else part()
        for function in self.functions:
            batches = function(batches)
        return list(batches)


@dataclass(slots=True)
class Shuffle:
    """Rows that were sent to tasks by the numbers in a column. The tasks before run when the first part is read, and
    what they gave stays for a task that is tried again."""

    frame: Frame
    tasks: int
    column: str
    found: list[pa.RecordBatch] | None = None

    def part(self, number: int) -> Batches:
        """Yield the rows of one task."""
        if self.found is None:
            self.found = self.frame.results()
        for batch in self.found:
            numbers = batch.column(self.column).to_pylist()
            yield batch.filter(pa.array([one % self.tasks == number for one in numbers], pa.bool_()))


def _sorted(columns: Sequence[str], batches: Batches) -> Batches:
    given = list(batches)
    if not given:
        return
    table = pa.Table.from_batches(given)
    yield from table.sort_by([(name, "ascending") for name in columns]).to_batches(_ROWS_AT_ONCE)


def _halfway(batches: Batches) -> Batches:
    found = list(batches)
    yield from found[: (len(found) + 1) // 2]
    raise TaskDiedError
