"""Test single faults between Kafka and the output, each at one exact moment of a write."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from random import Random

import psutil
import psycopg2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from faults.jobs import order_producer, orders
from given_topics import topics
from loads.loading import TARGET
from tideline.errors import RetryableError, TidelineError
from tideline.kafka.broker import Broker
from tideline.sinks.postgres import insertion

COUNT = 3000
LOCK = 7
# A row whose CHECK waits for a lock: the COPY stops in the middle of its rows.
WAITING_ROW = f"""
CREATE FUNCTION ads.wait(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN IF id = 10 THEN PERFORM pg_advisory_xact_lock_shared({LOCK}); END IF; RETURN true; END $$;
"""
FULL_DISK = """
CREATE FUNCTION ads.full() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file "base/5/1": No space left on device' USING ERRCODE = 'disk_full'; END $$;
"""


def value(number: int, size: int = 0) -> bytes:
    return b'{"id": %d, "name": "%s", "price": 1}' % (number, b"x" * size)


def filled(loading, admin, topic, *, size=0, partitions=1):
    """Fill a topic with COUNT records; return their numbers by place."""
    topics.created(admin, topic, partitions=partitions)
    producer = Producer({"bootstrap.servers": loading.bootstrap})
    for number in range(COUNT):
        producer.produce(topic, value(number, size), partition=number % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0
    return {(number % partitions, number // partitions): number for number in range(COUNT)}


@contextmanager
def in_background(loading, batch_ids):
    """Run a write in parallel to the test; it has ended after the context."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(loading.write, "one", batch_ids)


def ids(loading):
    return {place: row[0] for place, row in loading.output().items()}


@pytest.fixture
def staged(loading, monkeypatch):
    """Collect the number of staged rows at each publish."""
    found = []
    inserted = insertion.insert_output

    def counting(ledger, staged):
        found.append(loading.rows(f"SELECT count(*)::int FROM tideline_staging.{staged.table}")[0][0])
        return inserted(ledger, staged)

    monkeypatch.setattr(insertion, "insert_output", counting)
    return found


def test_a_worker_killed_during_a_copy_leaves_nothing_and_its_task_is_retried(loading, admin, staged):
    sent = filled(loading, admin, "copy_killed", size=10_000)  # more than the sockets hold behind the tenth row
    checked = TARGET.replace("CREATE TABLE", WAITING_ROW + "CREATE TABLE").replace(
        "NOT NULL,", "NOT NULL CHECK (ads.wait(id)),", 1
    )
    loading.declare("copy_killed", target=checked)
    batch_ids = loading.plan("one")
    with in_background(loading, batch_ids) as writing, closing(psycopg2.connect(loading.url)) as gate:
        gate.cursor().execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        worker = copying(loading, gate.info.backend_pid)
        assert loading.rows("SELECT count(*)::int FROM pg_stat_progress_copy") == [(1,)]
        worker.kill()
        worker.wait(180)
        gate.cursor().execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
        writing.result(120)
    assert (ids(loading), staged) == (sent, [COUNT])
    assert loading.attempts() == [("published", None)]


def copying(loading, gate: int) -> psutil.Process:
    """Return the Python worker whose COPY waits at the gate: the process at the other end of the connection."""
    waiting = "SELECT client_port FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    topics.until(lambda: loading.rows(waiting, gate), seconds=120)
    [(port,)] = loading.rows(waiting, gate)
    for process in psutil.Process().children(recursive=True):
        if process.name().startswith("python") and any(
            c.laddr and c.laddr.port == port for c in process.net_connections()
        ):
            return process
    raise AssertionError(f"no process of this test has port {port}")


@pytest.mark.parametrize("full", ["staging", "output"])
def test_a_full_disk_fails_the_attempt_and_blames_no_record(loading, admin, full):
    """The server reports a full disk while rows are staged, or while they are inserted into the output. When there is
    room again, the same batch succeeds."""
    sent = filled(loading, admin, f"full_{full}")
    loading.declare(f"full_{full}")
    with closing(psycopg2.connect(loading.url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute(TARGET + FULL_DISK)
        if full == "staging":
            cursor.execute("ALTER TABLE ads.output ADD CONSTRAINT room CHECK (ads.full())")
        else:
            cursor.execute(
                "CREATE FUNCTION ads.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM ads.full(); RETURN NULL; END';"
                "CREATE TRIGGER room BEFORE INSERT ON ads.output EXECUTE FUNCTION ads.refuse()"
            )
    assert "No space left on device" in loading.refusal(RetryableError)
    assert loading.rejects() == {}
    with closing(psycopg2.connect(loading.url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("DROP FUNCTION ads.full CASCADE; DROP TRIGGER IF EXISTS room ON ads.output")
    loading.run()
    assert (ids(loading), loading.rejects()) == (sent, {})


def test_a_full_disk_while_rejects_are_put_aside_fails_the_attempt(loading, admin):
    topics.created(admin, "full_rejects")
    producer = Producer({"bootstrap.servers": loading.bootstrap})
    for number in range(10):
        producer.produce("full_rejects", b"{bad" if number == 3 else value(number))
    assert producer.flush(20) == 0
    loading.declare("full_rejects")
    with closing(psycopg2.connect(loading.url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("CREATE SCHEMA ads;" + FULL_DISK)
        cursor.execute("ALTER TABLE tideline.staged_reject ADD CONSTRAINT room CHECK (ads.full())")
    assert "No space left on device" in loading.refusal(RetryableError)
    with closing(psycopg2.connect(loading.url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("DROP FUNCTION ads.full CASCADE")
    loading.run()
    assert (len(ids(loading)), list(loading.rejects())) == (9, [(0, 3)])


@pytest.fixture(params=[3, 40])
def seconds(request) -> int:
    """Return a time shorter than the reader's time-out of half a minute, and a longer one."""
    if request.param > 30 and not request.config.getoption("--soak"):
        pytest.skip("a minute, by night")
    return request.param


def test_a_broker_that_is_frozen_while_it_is_read_is_waited_for_or_read_again(
    loading, admin, broker, tmp_path, seconds
):
    topic = f"frozen_{seconds}"
    sent = filled(loading, admin, topic, partitions=3)
    go = tmp_path / "go"
    transform = f"""\
        import pathlib, time

        def records(batch):
            while batch.num_rows and not pathlib.Path({str(go)!r}).exists():
                time.sleep(0.05)
            return batch
        """
    loading.declare(topic, transform=transform, limits={"split_records": 200})
    batch_ids = loading.plan("one")
    with in_background(loading, batch_ids) as writing:
        try:
            topics.until(loading.staging_tables, seconds=120)
            time.sleep(1)  # two tasks have begun to read, and the others have not
            with frozen(broker.child.pid):
                go.touch()
                time.sleep(seconds)
                assert not writing.done()
            writing.result(120)
        finally:
            go.touch()
    assert (ids(loading), loading.attempts()) == (sent, [("published", None)])


@contextmanager
def frozen(pid: int):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_broker_that_comes_back_never_looks_as_if_it_had_lost_something(crashing, monkeypatch, request):
    """Otherwise healthy streams would stop, and wait for an operator to accept a loss."""
    names = [f"comes_back_{number}" for number in range(3)]
    admin = AdminClient({"bootstrap.servers": crashing.bootstrap})
    for name in names:
        topics.created(admin, name, partitions=12)
        order_producer.fill(crashing.bootstrap, name, orders.records(Random(0), 1200), 12)
    source = topics.source(crashing.bootstrap, *names)
    whole = {(name, partition): (0, 100) for name in names for partition in range(12)}
    enough, right, others = threading.Event(), [], []
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, enough, source, whole, right, others)
        try:
            for _ in range(20 if request.config.getoption("--soak") else 1):
                crashing.kill_broker()
                crashing.revive_broker()
                revived = time.monotonic()
                topics.until(lambda since=revived: asking.done() or (right and right[-1] > since), seconds=120)
        finally:
            enough.set()
        asking.result(300)
    assert others == []


def ask(enough, source, whole, right, others):
    """Note each time when the broker gave the right answer, and all wrong answers. A retryable error counts as
    neither."""
    while not enough.is_set():
        broker, begun = Broker(source), time.monotonic()
        try:
            facts = broker.topic_facts()
            missing = broker.missing(facts)
        except RetryableError:
            continue
        except TidelineError as error:
            others.append(error)
            continue
        found = {(topic.topic, p.partition): (p.log_start, p.end) for topic in facts for p in topic.partitions}
        if found == whole and not missing:
            right.append(begun)
        else:
            others.append((missing, found))
