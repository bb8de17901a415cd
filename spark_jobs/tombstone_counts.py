"""Count the tombstones that each of two reads of a batch has seen, to compare them. The tasks of a `frame` report nothing else to the driver.

Law: a tombstone that counts as written deletes its row. A batch with a `frame` is read twice: the first read counts, the second
one stages what tombstones delete. Compaction may remove one in between.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from tideline.errors import RetryableError
from tideline.ledger.attempts import Attempt
from tideline.records.kafka_metadata import stream_ids
from tideline.records.record_steps import deletes

_Counts = dict[tuple[int, int], int]
"""By stream and the first offset that a task has seen: what a task adds that runs again is the same entry."""


class _Union(AccumulatorParam[_Counts]):  # type: ignore[misc]  # it has no types
    """Adds up what tasks report."""

    def zero(self, value: _Counts) -> _Counts:  # noqa: ARG002 - an accumulator's signature
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:  # noqa: N802 - as above
        return value1 | value2


@dataclass(frozen=True, slots=True)
class Seen:
    """The tombstones that the tasks of one read have seen. It is pickled with each task."""

    _total: Accumulator[_Counts]
    _streams: Mapping[tuple[str, int], int]

    def counted(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables, and report at their end how many tombstones are in those that delete."""
        counts: dict[int, list[int]] = {}
        for table in tables:
            if deletes(table):
                kafka = table.column("kafka").combine_chunks()
                rows = pa.table({"stream": stream_ids(kafka, self._streams), "offset": kafka.field("offset")})
                for stream in pc.unique(rows["stream"]).to_pylist():
                    offsets = rows.filter(pc.equal(rows["stream"], stream))["offset"]
                    found = counts.setdefault(stream, [offsets[0].as_py(), 0])
                    found[1] += len(offsets)
            yield table
        if counts:
            self._total.add({(stream, first): n for stream, (first, n) in counts.items()})

    def number(self) -> int:
        """Return how many they are."""
        return sum(self._total.value.values())


@dataclass(frozen=True, slots=True)
class TwoReads:
    """What two reads of one batch have seen."""

    first: Seen
    second: Seen

    @classmethod
    def of(cls, spark: SparkContext, streams: Mapping[tuple[str, int], int]) -> "TwoReads":
        """Return the counts before any task has run."""
        return cls(*(Seen(spark.accumulator({}, _Union()), streams) for _ in range(2)))

    def check(self, attempt: Attempt) -> None:
        """Make sure that both have seen the same tombstones.

        Raises:
            RetryableError: They have not.
        """
        first, second = self.first.number(), self.second.number()
        if first != second:
            raise RetryableError(
                f"{attempt}: the first read has seen {first} tombstones, the second one {second}: "
                "was the topic compacted in between? nothing was published",
                next_step="nothing: the task tries again by itself, and reads what the topic has now",
            )
