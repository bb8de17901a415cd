"""No error of the database leaves a session as psycopg2 raises it, and sessions that were idle go on."""

import threading
from contextlib import nullcontext

import psycopg2
import psycopg2.errors
import pytest
from psycopg2 import errorcodes
from psycopg2.sql import SQL, Literal

from given_ledger import ledgers
from given_ledger.ledgers import execute, query, state
from given_ledger.planners import declared
from given_topics.topics import until
from tideline.authoring import database_table
from tideline.domain.checks import Verdict
from tideline.errors import FatalError, RetryableError, TidelineError
from tideline.ledger import attempts, connection, publishing, queries
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError
from tideline.records import task_sessions
from tideline.records.task_sessions import TaskSession
from tideline.spark_jobs import heartbeat
from tideline.spark_jobs.heartbeat import Heartbeat

STATES = sorted(
    code for name, code in vars(errorcodes).items() if name.isupper() and len(str(code)) == 5 and code[:2] > "02"
)
"""Every SQLSTATE of an error that psycopg2 knows."""
UNKNOWN = ("ZZ001", "77777", "K0000")
RAISED = "DO $$ BEGIN RAISE EXCEPTION 'of a test' USING ERRCODE = {}; END $$"


def raised(ledger, text, *, inside):
    """Let the server refuse a statement; return the error that leaves the session."""

    def run():
        with ledger.transaction() if inside else nullcontext():
            ledger.run_sql(SQL(text), {})

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the tests look at its class
        run()
    return caught.value


@pytest.mark.parametrize("inside", [True, False])
def test_no_error_of_the_server_leaves_a_session_as_it_is(ledger, inside):
    assert len(STATES) > 200
    for code in (*STATES, *UNKNOWN):
        error = raised(ledger, SQL(RAISED).format(Literal(code)).as_string(ledger.connection), inside=inside)
        assert isinstance(error, RetryableError | FatalError), code
        assert error.next_step, code
        assert error.entry, code
        assert isinstance(error.__cause__, psycopg2.Error)
        if code[:2] in {"08", "25", "40", "53", "55", "57", "58", "XX"} or code in UNKNOWN:
            assert isinstance(error, RetryableError), code
        if code[:2] in {"22", "23", "42", "54"} and code != errorcodes.STATEMENT_TOO_COMPLEX:
            assert isinstance(error, FatalError), code
        assert query(ledger, "SELECT 1") == [(1,)]  # the session goes on


@pytest.mark.parametrize("inside", [True, False])
def test_no_error_of_the_client_leaves_a_session_as_it_is(ledger, inside):
    assert isinstance(raised(ledger, "", inside=inside), TidelineError)  # an empty statement is refused by the client
    ledger.connection.close()
    assert isinstance(raised(ledger, "SELECT 1", inside=inside), RetryableError)


def test_a_law_that_is_checked_at_the_end_is_named(ledger):
    """It refuses the COMMIT."""
    (stream,) = ledgers.start_streams(ledger, 1)
    ledgers.published(ledger, {stream: (0, 10)})
    with pytest.raises(RefusedStatementError, match="would no longer be accounted for") as caught, ledger.transaction():
        ledger.run_sql(SQL("DELETE FROM tideline.coverage"), {})
    assert caught.value.sqlstate == errorcodes.RESTRICT_VIOLATION
    assert caught.value.entry == "ledger-refuses"


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("statement_timeout", "SELECT pg_sleep(20)"),
        # psycopg2 often loses the last message of a session that the server ends.
        ("transaction_timeout", "DO $$ BEGIN RAISE 'due to transaction timeout' USING ERRCODE = '25P04'; END $$"),
        ("idle_session_timeout", "DO $$ BEGIN RAISE 'due to idle-session timeout' USING ERRCODE = '57P05'; END $$"),
    ],
)
def test_a_time_out_that_something_in_between_has_set_is_named(ledger, setting, statement):
    execute(ledger, "SET statement_timeout = '50ms'")
    with pytest.raises(RetryableError, match=f"by {setting}, which is 0 in sessions of Tideline") as caught:
        ledger.rows_of(SQL(statement), {})
    assert f"what sets {setting}" in caught.value.next_step
    assert caught.value.entry == "ledger-ends-sessions"


def test_a_server_that_takes_no_writes_is_named(ledger):
    (stream,) = ledgers.start_streams(ledger, 1)
    execute(ledger, "SET default_transaction_read_only = on")  # as after the fail-over of a primary, for this session
    with pytest.raises(RetryableError, match="takes no writes: cannot execute") as caught:
        ledgers.plan(ledger, {stream: (0, 10)})
    assert "primary" in caught.value.next_step


def test_a_query_that_writes_where_tideline_only_reads_is_told_from_a_standby(ledger):
    execute(ledger, "CREATE TABLE public.prices (id int)")
    execute(ledger, "CREATE VIEW public.locked AS SELECT id FROM public.prices FOR UPDATE")
    [finding] = database_table.checked_references(ledger, declared("nowhere:9092", "ads"), ["public.locked"])
    assert finding.verdict == Verdict.BAD
    assert "a query that was to read only wants to write or to lock rows" in finding.found
    with pytest.raises(FatalError, match="cannot execute SELECT") as caught, queries.reading(ledger):
        ledger.rows_of(SQL("SELECT id FROM public.locked"), {})
    assert caught.value.entry == "table-cannot-be-read"


@pytest.fixture
def idle(monkeypatch):
    """Count every session as idle for long."""
    monkeypatch.setattr(connection, "AWAKE_SECONDS", -1)
    monkeypatch.setattr(task_sessions, "AWAKE_SECONDS", -1)


def end(url, pid):
    with Ledger(url, actor="proxy") as proxy:
        query(proxy, "SELECT pg_terminate_backend(%s, 5000)", pid)


def test_a_driver_whose_session_was_ended_while_spark_staged_publishes_its_attempt(ledger, ledger_url, idle):
    (stream,) = ledgers.start_streams(ledger, 1)
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream: (0, 10)}))
    ledgers.stage(ledger, attempt)
    end(ledger_url, ledger.connection.info.backend_pid)
    ledgers.publish(ledger, attempt)
    assert state(ledger, attempt.batch_id) == ("published", 1)
    assert query(ledger, "SELECT attempt, outcome::text, current_setting('tideline.actor') FROM tideline.attempt") == [
        (attempt.attempt, "published", "test")
    ]


def test_a_session_that_is_ended_within_a_transaction_is_not_opened_again(ledger, ledger_url, idle):
    (stream,) = ledgers.start_streams(ledger, 1)

    def insert_output(_):
        end(ledger_url, ledger.connection.info.backend_pid)
        return publishing.Written(n_written={stream: 10})

    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream: (0, 10)}))
    ledgers.stage(ledger, attempt)
    with pytest.raises(RetryableError):
        publishing.publish(ledger, attempt, insert_output, facts={}, filtered_by_difference=False)
    ledger.reconnect()
    assert state(ledger, attempt.batch_id) == ("writing", 1)


def test_a_task_whose_session_was_ended_while_it_transformed_goes_on(ledger_url, idle):
    with TaskSession(ledger_url) as session:
        assert session.wake() is False
        with session.connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            ((pid,),) = cursor.fetchall()
        end(ledger_url, pid)
        assert session.wake() is True
        with session.connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('default_transaction_isolation')")
            assert cursor.fetchall() == [("read committed",)]


# Where it does not survive, the test fails because nothing beats, and not because of what the thread leaves behind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "error", [KeyError("x"), psycopg2.errors.ReadOnlySqlTransaction("x"), RuntimeError("x"), MemoryError()]
)
def test_the_heart_survives_every_error_and_beats_again_when_the_ledger_is_well(ledger, ledger_url, monkeypatch, error):
    (stream,) = ledgers.start_streams(ledger, 1)
    attempt = ledgers.claim(ledger, ledgers.plan(ledger, {stream: (0, 10)}))
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(heartbeat, "_WATCH_SECONDS", 0.02)
    real, tries, well, stopped = attempts.beat, [], threading.Event(), []

    def beat(session, number):
        tries.append(number)
        if not well.is_set():
            raise error
        return real(session, number)

    monkeypatch.setattr(heartbeat.attempts, "beat", beat)

    def superseded():
        stopped.append(None)
        raise error

    def beaten():
        return query(ledger, "SELECT heartbeat_at FROM tideline.attempt WHERE ended_at IS NULL")

    with Heartbeat(ledger_url, attempt.attempt, superseded):
        until(lambda: len(tries) > 2)
        before = beaten()
        well.set()
        until(lambda: beaten() > before)
        ledgers.claim(ledger, attempt.batch_id)
        until(lambda: len(stopped) > 1)
