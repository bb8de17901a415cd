"""While a batch is written its attempt sends heartbeats, and stops when a newer attempt has claimed the batch."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import records
from given_topics.topics import until
from tideline import flow
from tideline.errors import SupersededError
from tideline.ledger.attempts import Attempt, Writer
from tideline.spark_jobs import heartbeat, write_batches

# Every batch waits until the test releases it.
SLOW = """\
    import pathlib, time

    def records(batch):
        while batch.num_rows and not pathlib.Path({go!r}).exists():
            time.sleep(0.05)
        return batch
    """
NEWER = Writer(dag_id="test", run_id="slow", task_id="write", try_number=2)


@pytest.fixture
def quick(monkeypatch):
    """Send heartbeats ten times as often as in production."""
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.2)
    monkeypatch.setattr(heartbeat, "_WATCH_SECONDS", 0.1)


@pytest.fixture
def sessions(monkeypatch):
    """Collect the ledger sessions that heartbeats have opened, in order."""
    opened = []
    connect = heartbeat.Ledger

    def connecting(url, **options):
        opened.append(connect(url, **options))
        return opened[-1]

    monkeypatch.setattr(heartbeat, "Ledger", connecting)
    return opened


@pytest.fixture
def deaf(monkeypatch):
    """Switch heartbeats off, so that an attempt notices a newer one only when it publishes."""
    monkeypatch.setattr(heartbeat, "_WATCH_SECONDS", 1000)


@pytest.fixture
def slow(loading, tmp_path):
    """Start writing a batch; provide the file that releases it."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    go = tmp_path / "go"
    loading.declare(topic, transform=SLOW.format(go=str(go)))
    batch_ids = loading.plan("slow")
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(loading.write, "slow", batch_ids)
        try:
            until(lambda: loading.staging_tables() or writing.done())
            yield batch_ids[0], writing, go
        finally:
            go.touch()


def heartbeat_of(loading):
    return loading.rows("SELECT heartbeat_at FROM tideline.attempt ORDER BY attempt_id")[0][0]


def test_the_heart_beats_while_a_batch_is_written(loading, quick, slow):
    _, writing, go = slow
    for _ in range(2):
        seen = heartbeat_of(loading)
        until(lambda seen=seen: heartbeat_of(loading) > seen)
    assert not writing.done()
    go.touch()
    writing.result(120)
    assert loading.published() == 10


def test_a_newer_claim_ends_the_older_attempt_early_and_for_good(loading, quick, slow):
    batch_id, writing, go = slow
    with loading.ledger() as ledger:
        newer = flow.claim(ledger, batch_id, NEWER)
    assert isinstance(newer, Attempt)
    with pytest.raises(SupersededError, match="nothing: a newer attempt has the batch"):
        writing.result(180)  # although the test has not released it
    refused = loading.rows("SELECT batch_id, detail ->> 'fence' FROM tideline.event WHERE action = 'refuse'")
    assert refused == [(batch_id, "1")]
    assert [outcome for outcome, _ in loading.attempts()] == ["superseded", None]
    assert loading.published() == 0
    go.touch()
    loading.write("slow", [batch_id], try_number=3)
    assert (loading.published(), loading.staging_tables()) == (10, [])
    assert [outcome for outcome, _ in loading.attempts()] == ["superseded", "superseded", "published"]


def test_rows_that_an_older_attempt_staged_are_not_published_by_a_newer_one(loading, deaf, slow):
    """The older one does not notice, stages everything, and publishes after the newer one has claimed."""
    batch_id, writing, go = slow
    with loading.ledger() as ledger:
        flow.claim(ledger, batch_id, NEWER)
        go.touch()
        with pytest.raises(SupersededError):
            writing.result(180)
    assert loading.rows(f"SELECT count(*)::int FROM tideline_staging.{loading.staging_tables()[0]}") == [(10,)]
    loading.transform("def records(batch): return batch.slice(0, 4)")
    loading.write("slow", [batch_id], try_number=3)
    assert loading.published() == 4


def cut_off(loading, session):
    """End the session of a heartbeat on the server."""
    loading.rows("SELECT pg_terminate_backend(%s, 5000)", session.connection.info.backend_pid)


def test_a_ledger_that_does_not_answer_the_heart_takes_nothing_away(loading, quick, sessions, slow, monkeypatch):
    _, writing, go = slow
    until(lambda: sessions)  # it has sent its first heartbeat
    seen = threading.Event()
    failing = heartbeat.Ledger

    def unreachable(*arguments, **options):
        seen.set()
        return failing("postgresql://127.0.0.1:1/none", **options)

    monkeypatch.setattr(heartbeat, "Ledger", unreachable)
    cut_off(loading, sessions[0])
    assert seen.wait(180)
    go.touch()
    writing.result(120)
    assert loading.published() == 10


def test_a_heart_keeps_its_connection_and_opens_another_only_when_it_is_lost(loading, quick, sessions, slow):
    _, writing, go = slow
    for _ in range(3):
        seen = heartbeat_of(loading)
        until(lambda seen=seen: heartbeat_of(loading) > seen)
    assert len(sessions) == 1
    cut_off(loading, sessions[0])
    until(lambda: len(sessions) == 2)
    seen = heartbeat_of(loading)
    until(lambda: heartbeat_of(loading) > seen)
    go.touch()
    writing.result(120)
    assert loading.published() == 10


def test_heartbeats_begin_with_the_claim_also_while_the_session_waits_for_a_cluster(loading, quick, monkeypatch):
    """A queue of more than a minute must not make the writer count as dead."""
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(topic)
    beats = []
    session = write_batches.session

    def queueing(name):
        before = heartbeat_of(loading)
        until(lambda: heartbeat_of(loading) > before)
        beats.append(before)
        return session(name)

    monkeypatch.setattr(write_batches, "session", queueing)
    loading.write("queued", loading.plan("queued"))
    assert (len(beats), loading.published()) == (1, 10)


def test_an_attempt_superseded_while_it_waited_for_its_session_reads_nothing(loading, quick, monkeypatch):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(topic)
    batch_ids = loading.plan("queued")
    stopped, stop, session = threading.Event(), heartbeat.Work.stop, write_batches.session

    def noticing(work):
        stop(work)
        stopped.set()

    def queueing(name):
        with loading.ledger() as ledger:
            flow.claim(ledger, batch_ids[0], replace(NEWER, run_id="queued"))
        assert stopped.wait(180)
        return session(name)

    monkeypatch.setattr(heartbeat.Work, "stop", noticing)
    monkeypatch.setattr(write_batches, "session", queueing)
    with pytest.raises(SupersededError, match="nothing: a newer attempt has the batch"):
        loading.write("queued", batch_ids)
    assert loading.staging_tables() == []
    assert [outcome for outcome, _ in loading.attempts()] == ["superseded", None]
