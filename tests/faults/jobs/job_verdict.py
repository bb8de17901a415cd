"""Check a pipeline that has loaded everything."""

from collections.abc import Iterator
from itertools import count

from faults import checker
from faults.checker.facts import Expected, Record, Stream, Violation
from faults.checker.kafka_truth import KafkaTruth
from faults.jobs import orders
from faults.jobs.crashing_servers import Servers


def verdict(servers: Servers, pipeline: str) -> tuple[list[Violation], int]:
    """Compare each record in Kafka with Postgres. Return the violations, and the number of records."""
    seen: Iterator[int] = count()

    def expected(_: Stream, record: Record) -> Expected:
        next(seen)
        return orders.expected(record)

    truth = KafkaTruth(servers.bootstrap, expected)
    with checker.read(servers.url, pipeline, orders.table_of(pipeline), orders.COLUMNS) as found:
        broken = checker.violations(found, truth, quiet=True)
    return broken, next(seen)
