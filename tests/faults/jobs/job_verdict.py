"""Check a pipeline that has loaded everything."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from uuid import UUID

from faults import checker
from faults.checker.facts import Expected, Found, Record, Stream, Violation
from faults.checker.index import PUBLISHED, REDRIVE
from faults.checker.kafka_truth import KafkaTruth
from faults.jobs import order_runs, orders, read_back
from faults.jobs.order_outputs import Output, Sink
from faults.plain_fold import wrong_states
from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Verdict
from tideline.ledger import invariants
from tideline.ledger.connection import Ledger
from tideline.reports.checks.outside import receipts

_ALL = 100_000
"""More batches than any schedule has."""


def verdict(
    url: str, bootstrap: str, output: Output, *, asset_events: Sequence[tuple[int, UUID]] | None = None
) -> tuple[list[Violation], int]:
    """Compare each record in Kafka with the output and the ledger. Return the violations, and the number of records."""
    if output.is_outside:
        read_back.copy(output, url, bootstrap)
    seen: Iterator[int] = count()
    with checker.read(url, output.pipeline, output.table, orders.COLUMNS) as read:
        commits = read_back.commits(output, url, bootstrap) if output.is_outside else None
        found = replace(read, commits=commits, asset_events=asset_events)
        sent = _times_sent(found) if output.sink is Sink.TOPIC else lambda *_: 1

        def expected(stream: Stream, record: Record) -> Expected:
            next(seen)
            once = orders.expected(record, output)
            return replace(once, rows=once.rows * sent(stream, record.offset))

        truth = KafkaTruth(bootstrap, expected)
        if output.sink is not Sink.FOLDED:
            return checker.violations(found, truth, quiet=True), next(seen)
        runs = order_runs.runs(truth)
        broken = checker.violations(runs.without_expired(found), truth, quiet=True)
        n_records = next(seen)
        broken += wrong_states(found, runs)
    return broken, n_records


def _times_sent(found: Found) -> Callable[[Stream, int], int]:
    """Return how often an offset is sent to a topic: by each batch that has published it. A replay there appends."""
    published = {batch.batch_id for batch in found.batches if batch.state in PUBLISHED and batch.kind != REDRIVE}
    ranges = [piece for piece in found.ranges if piece.batch_id in published]
    return lambda stream, offset: sum(
        piece.stream_id == stream.stream_id and piece.start <= offset < piece.end for piece in ranges
    )


def doctors(url: str, pipeline: Pipeline) -> list[str]:
    """Return the differences that `tideline doctor` finds between the ledger and the receipts of an outside sink."""
    with Ledger(url, actor="doctor") as ledger:
        with ledger.transaction():
            batches = invariants.outside_batches(ledger, pipeline.name, most=_ALL)
        return [check.found for check in receipts(ledger, pipeline, batches) if check.verdict is not Verdict.OK]
