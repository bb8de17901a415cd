"""Planning as DAG runs do it, with one session for each planner: over real topics, or over logs in memory that a real broker does
not make on request."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from faults.memory import Cluster, MemoryBroker
from given_ledger import ledgers
from given_ledger.ledgers import query
from tideline import flow
from tideline.declaration.pipelines import Pipeline
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges, Request
from tideline.flow import Plan
from tideline.kafka.broker import Broker
from tideline.ledger import heads, reservations
from tideline.ledger.connection import Ledger
from tideline.ledger.reservations import Run

NAME = "races"
T = TypeVar("T")


class Limits(TypedDict, total=False):
    """The limits of a declaration that tests set."""

    batch_records: int
    run_batches: int


def declared(
    bootstrap: str,
    *topics: str,
    start: str = "earliest",
    name: str = NAME,
    source: Mapping[str, Any] | None = None,
    table: str = "ads.output",
    **limits: Unpack[Limits],
) -> Pipeline:
    """Declare a pipeline over topics of raw bytes; `source` has other keys of that section."""
    raw = {
        "description": "A test",
        "source": {
            "bootstrap_servers": bootstrap,
            **({"topics": list(topics)} if topics else {}),
            "start": start,
            "value": {"format": "bytes"},
            **(source or {}),
        },
        "sink": {"table": table},
        "limits": limits,
        "name": name,
        "folder": Path(name),
    }
    return Pipeline.model_validate(raw, context=name)


def run(name: str) -> Run:
    return Run(dag_id=NAME, run_id=name)


def plan(url: str, pipeline: Pipeline, name: str, *, until: datetime | None = None) -> list[int]:
    """Plan new records in a session of its own, as a task does; return the batches."""
    return ask(url, pipeline, name, NewRecords(until=until)).batch_ids


def ask(url: str, pipeline: Pipeline, name: str, request: Request, *, reason: str | None = None) -> Plan:
    """Plan a request in a session of its own."""
    with Ledger(url, actor=name) as ledger:
        return flow.plan(ledger, Broker(pipeline.source), pipeline, run(name), request, reason=reason)


def finish(ledger: Ledger, batch_ids: list[int]) -> None:
    """Write and publish the batches as if every offset had been a good record."""
    for batch_id in batch_ids:
        attempt = ledgers.claim(ledger, batch_id)
        ledgers.stage(ledger, attempt)
        ledgers.publish(ledger, attempt)


def ranges(ledger: Ledger) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Return all reserved (start, end) of each topic and partition, ascending."""
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT topic, partition, lower(offsets), upper(offsets)"
            " FROM tideline.batch_range JOIN tideline.stream USING (stream_id) ORDER BY topic, partition, offsets"
        )
        found: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for topic, partition, start, end in cursor:
            found.setdefault((topic, partition), []).append((start, end))
        return found


def ranges_of(ledger: Ledger, batch_id: int) -> dict[int, tuple[int, int]]:
    """Return (start, end) by partition."""
    with ledger.transaction():
        rows = ledger.rows("list_ranges", batch_id=batch_id)
    return {row["partition"]: (row["start_offset"], row["end_offset"]) for row in rows}


def decide(url: str, pipeline: Pipeline, verb: Callable[..., T], *asked: object, actor: str = "ada", **named: Any) -> T:
    """Call a verb that needs the broker, in a session of its own, as an operator does."""
    with Ledger(url, actor=actor) as ledger:
        return verb(ledger, Broker(pipeline.source), pipeline, *asked, **named)


def load(ledger: Ledger, batch_ids: list[int]) -> list[int]:
    """Publish the batches and move the heads; return the batches."""
    finish(ledger, batch_ids)
    heads.advance_published(ledger, NAME)
    return batch_ids


def coverage(ledger: Ledger, partition: int = 0) -> list[tuple[int, int, int | str]]:
    """Return (start, end, batch or hole) of one partition, ascending; of all its incarnations."""
    return query(
        ledger,
        "SELECT lower(offsets), upper(offsets), coalesce(batch_id::text::jsonb, to_jsonb(hole)) FROM tideline.coverage"
        " JOIN tideline.stream USING (stream_id) WHERE partition = %s ORDER BY topic_id, offsets",
        partition,
    )


def next_offsets(ledger: Ledger) -> dict[int, int]:
    """Return the head of each partition that has a stream now."""
    with ledger.transaction():
        return {s.partition: s.next_offset for s in reservations.streams(ledger, NAME) if not s.retired}


class Brokerless:
    """A pipeline over the topic `ads`.

    Args:
        ledger: The session that plans.
        ends: The number of records in each partition.
        source: Keys of the declaration's section `source`.
        limits: Limits of the declaration.
    """

    def __init__(
        self, ledger: Ledger, *ends: int, source: dict[str, Any] | None = None, **limits: Unpack[Limits]
    ) -> None:
        self.ledger = ledger
        self.cluster = Cluster()
        self.logs = self.cluster.create("ads", *ends).logs
        self.pipeline = declared("nowhere:9092", "ads", source=source, **limits)
        self.broker = MemoryBroker(self.cluster, self.pipeline.source)

    def ask(self, name: str, request: Request | None = None, *, reason: str | None = None) -> Plan:
        """Return the plan of a run of that name."""
        wanted = request or NewRecords()
        return flow.plan(self.ledger, self.broker, self.pipeline, run(name), wanted, reason=reason)

    def plan(self, name: str, request: Request | None = None) -> list[int]:
        """Return the batches of a run of that name."""
        return self.ask(name, request, reason="a test").batch_ids

    def advance(self, name: str) -> None:
        """Advance that run."""
        flow.advance(self.ledger, NAME, run(name))


def piece(pipeline: Pipeline, start: int, end: int, partition: int = 0) -> NamedRange:
    assert pipeline.source.topics is not None  # no pattern
    return NamedRange(pipeline.source.topics[0], partition, OffsetRange(start, end))


def these(pipeline: Pipeline, *bounds: tuple[int, int] | tuple[int, int, int], replace: bool = False) -> Ranges:
    return Ranges(ranges=tuple(piece(pipeline, *bound) for bound in bounds), replace=replace)


def kinds(ledger: Ledger, batch_ids: Iterable[int]) -> list[tuple[str, dict[int, tuple[int, int]]]]:
    """Return (kind, ranges) of each batch."""
    found = [query(ledger, "SELECT kind::text FROM tideline.batch WHERE batch_id = %s", n)[0][0] for n in batch_ids]
    return [(kind, ranges_of(ledger, n)) for kind, n in zip(found, batch_ids, strict=True)]
