"""Load with more cores than the server has connections. Of a pooler in front of it, only one of sessions will do."""

import os
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from random import Random

import psycopg2
import pytest
from confluent_kafka.admin import AdminClient

from faults.jobs import order_producer, orders
from faults.jobs.crashing_servers import Servers
from faults.jobs.job_verdict import verdict
from faults.jobs.order_outputs import Output, Sink
from faults.jobs.rounds import TASK_S, Rounds
from given_topics import topics
from servers import pgbouncer
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger

CONNECTIONS, KEPT_FOR_SUPERUSERS = 20, 3
PARTITIONS, RECORDS = 64, 6_400
LIMITS = {"split_records": 50}
"""So that Spark has tasks for 64 cores."""
POOLED = 12
TASKS_OF_POOLED = 6
_TASKS = """SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
_HAS = pytest.mark.skipif(pgbouncer.program() is None, reason="PgBouncer is not installed")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Iterator[Servers]:
    """Yield a Postgres with few connections, and a broker."""
    few = {"max_connections": str(CONNECTIONS), "superuser_reserved_connections": str(KEPT_FOR_SUPERUSERS)}
    with Servers(tmp_path_factory.mktemp("small"), postgres=few).running() as servers:
        yield servers


@contextmanager
def counted(url: str) -> Iterator[list[int]]:
    """Count the sessions of other clients again and again, with one of its own. Yield the counts."""
    counts: list[int] = []
    ended = threading.Event()

    def look() -> None:
        with closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                while not ended.wait(0.02):
                    cursor.execute(_TASKS)
                    counts.append(cursor.fetchall()[0][0])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("way", ["to the server", pytest.param("over PgBouncer", marks=_HAS)])
def test_the_tasks_of_64_cores_share_20_connections(small, way, tmp_path, monkeypatch):
    name = f"cores_{os.getpid()}_{way.split()[0]}"
    output = Output(pipeline=name, sink=Sink.APPEND, lakes=tmp_path)
    topics.created(AdminClient({"bootstrap.servers": small.bootstrap}), name, partitions=PARTITIONS)
    order_producer.fill(small.bootstrap, name, orders.records(Random(0), RECORDS), PARTITIONS)
    pool = pgbouncer.pooled(small.folder / "pooled", small.url, mode="session", size=POOLED)
    is_pooled = way == "over PgBouncer"
    limits = LIMITS | ({"max_connections": TASKS_OF_POOLED} if is_pooled else {})
    orders.declare(small.pipelines / name, name, output, transform="records", limits=limits)
    with pool if is_pooled else nullcontext(small.url) as url, counted(small.url) as counts:
        variables = small.variables() | {"TIDELINE_LEDGER_URL": url}
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        rounds = Rounds(name, variables=variables, logs=tmp_path, master="local[64]", refill=lambda: False)
        try:
            rounds.start()
            rounds.finish(TASK_S)
        finally:
            rounds.stop()
    assert rounds.codes == {0: 1}, "a task was tried again"
    assert rounds.retries == []
    assert max(counts) <= (POOLED if is_pooled else CONNECTIONS - KEPT_FOR_SUPERUSERS)
    assert max(counts) >= 4, "the tasks ran one after another"
    broken, n_records = verdict(small.url, small.bootstrap, output)
    assert broken == []
    assert n_records == RECORDS


@_HAS
def test_a_pgbouncer_that_pools_transactions_is_refused(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("transactions") / "pooled"
    with (
        pgbouncer.pooled(folder, small.url, mode="transaction", size=2) as url,
        Ledger(url, actor="test") as session,
        closing(psycopg2.connect(url)) as other,
        other.cursor() as cursor,
    ):
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1")  # takes the session that the first one has had
        with pytest.raises(FatalError, match="a pooler in front of the ledger's database"), session.transaction():
            pass
