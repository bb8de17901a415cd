"""Sessions with the ledger in memory: a transaction is kept or undone completely, and `on_step` may make any step fail."""

import psycopg2
import pytest

from faults import records
from faults.memory import MemoryDatabase, MemoryLedger, MemorySink, record
from given_ledger.ledgers import PIPELINE, claim, plan, publish, start_streams
from tideline.errors import RetryableError
from tideline.ledger import attempts, reservations
from tideline.ledger.connection import CommitUnknownError
from tideline.ledger.publishing import was_published

LOST = psycopg2.OperationalError("server closed the connection unexpectedly")


class KilledError(BaseException):
    """Raised in place of a signal that ends a process."""


class Watcher:
    """Raises an error at a step."""

    def __init__(self):
        self.at, self.error, self.steps = None, None, []

    def __call__(self, session, step):
        self.steps.append(step)
        if step == self.at:
            self.at = None
            raise self.error

    def raises(self, error, *, at):
        self.at, self.error = at, error


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def database(watcher):
    return MemoryDatabase(watcher)


@pytest.fixture
def session(database):
    return MemoryLedger(database, actor="test")


@pytest.fixture
def attempt(session):
    """Stage an attempt, without publishing it."""
    [stream] = start_streams(session, 1)
    attempt = claim(session, plan(session, {stream: (0, 10)}))
    count = {"first_read": 0, "last_read": 9, "n_read": 10, "n_filtered": 0, "n_bytes": 0}
    record(session, attempt, counts=[{"stream_id": stream, **count}])
    return attempt


def state(database):
    """Return the content of all tables."""
    rows = {name: repr(table) for name, table in vars(database).items() if isinstance(table, dict)}
    return {name: table for name, table in rows.items() if name != "_sequences"}


def test_whatever_ends_a_session_within_a_transaction_nothing_of_it_is_kept(watcher, database, session, attempt):
    before = state(database)
    publish_steps = [
        "lock_batch",
        "record_counts",
        "publish_batch",
        "cover_batch",
        "end_attempt",
        "clear_staging",
        "commit",
    ]
    for step in publish_steps:
        for error in (KilledError(), LOST):
            watcher.raises(error, at=step)
            with pytest.raises((KilledError, RetryableError)):
                publish(session, attempt)
            assert state(database) == before
            session.reconnect()
    publish(session, attempt)
    assert watcher.steps[-len(publish_steps) :].count("commit") == 2
    assert database.batches[attempt.batch_id].state == "published"


def test_a_commit_whose_answer_is_lost_is_kept_and_can_be_looked_up(watcher, session, attempt):
    watcher.raises(LOST, at="committed")
    publish(session, attempt)
    assert was_published(session, attempt)


def test_a_commit_that_never_arrives_is_not_kept_and_the_session_cannot_tell(watcher, session, attempt):
    watcher.raises(LOST, at="commit")
    with pytest.raises(CommitUnknownError):
        publish(session, attempt)
    assert not was_published(session, attempt)


def test_a_session_that_was_lost_says_so_once_and_is_closed(watcher, session):
    session.connection.lose()
    for error in (RetryableError, RetryableError):
        with pytest.raises(error), session.transaction():
            session.rows("find_batch", batch_id=1)
    assert session.connection.closed
    session.reconnect()
    assert reservations.batches_of_run(session, PIPELINE, reservations.Run(dag_id="d", run_id="r")) == []


def test_two_transactions_at_once_are_a_mistake_of_the_simulation(database, session):
    other = MemoryLedger(database, actor="other")
    with session.transaction():
        session.rows("find_batch", batch_id=1)
        assert session.in_transaction
        with pytest.raises(AssertionError, match="other begins within one of test"):
            other.rows("find_batch", batch_id=1)


def test_a_crash_of_the_server_ends_all_sessions_and_empties_what_is_not_logged(database, session, attempt):
    sink = MemorySink(database, "ads.output", records.OUTPUT, item="item")
    staging = sink.create_staging(session, attempt)
    sink.copy(staging, 1, [(1, 0, (1, 0, "name", 1))])

    def goes_on():
        with session.transaction():
            session.rows("set_reason", reason="because")
            database.crash()
            session.rows("find_batch", batch_id=1)

    with pytest.raises(RetryableError):
        goes_on()
    assert database.staging == {staging: []}
    assert database.staged_counts[attempt.attempt_id] != {}
    session.reconnect()
    publish(session, attempt)


def test_an_attempt_falls_silent_when_the_clock_is_moved_and_no_sooner(database, session, attempt):
    with session.transaction():
        assert session.rows("list_silent_claims", pipeline=PIPELINE, silent_seconds=600.0) == []
    database.pass_time(601)
    with session.transaction():
        [claim_] = session.rows("list_silent_claims", pipeline=PIPELINE, silent_seconds=600.0)
    assert 601 <= claim_["silent_seconds"] < 602
    attempts.beat(session, attempt.attempt)
    with session.transaction():
        assert session.rows("list_silent_claims", pipeline=PIPELINE, silent_seconds=600.0) == []


def test_a_number_is_never_given_again_and_a_seed_gives_the_same_attempts(watcher, session, attempt):
    batch = {
        "pipeline": PIPELINE,
        "kind": "live",
        "dag_id": "d",
        "run_id": "r",
        "supersedes": None,
        "reason": None,
        "outside": False,
        "stateful": False,
    }
    batch |= {"n_batches": 1}
    watcher.raises(KilledError(), at="commit")
    with pytest.raises(KilledError), session.transaction():
        session.rows("plan_batches", **batch)
    with session.transaction():
        assert session.rows("plan_batches", **batch) == [{"batch_id": 3}]
    again = MemoryLedger(MemoryDatabase(), actor="test")
    [stream] = start_streams(again, 1)
    assert claim(again, plan(again, {stream: (0, 10)})).attempt == attempt.attempt
