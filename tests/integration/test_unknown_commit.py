"""A connection lost at the worst moment: publish reports what really happened, and another attempt can continue."""

import pytest
from psycopg2.extensions import make_dsn

from given_ledger.ledgers import claim, events, plan, publish, query, stage, start_streams, state
from servers.cutting_proxy import CuttingProxy, cut_after, cut_before, cut_meanwhile
from tideline.deployment import secret
from tideline.errors import FatalError, RetryableError
from tideline.ledger import publishing
from tideline.ledger.connection import Ledger

# The beginning of each statement of a publish, in order.
STEPS = [
    "pg_advisory_xact_lock_shared",
    "FOR NO KEY UPDATE",
    "INSERT INTO tideline.reject",
    "SET n_read",
    "SET state = 'published'",
    "INSERT INTO tideline.coverage",
    "SET ended_at",
    "DELETE FROM tideline.staged_reject",
    "COMMIT",
]


@pytest.fixture
def proxy(ledger_url):
    with CuttingProxy(ledger_url) as proxy:
        yield proxy


@pytest.fixture
def cut_off(proxy):
    """Open a session through the proxy."""
    with Ledger(proxy.url, actor="cut off") as session:
        yield session


@pytest.fixture
def attempt(ledger):
    """Stage all of an attempt with ten offsets."""
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    return attempt


def visible(ledger, batch_id):
    """Return state and fence, how often the batch was published, and how many ranges it owns in the output."""
    published = [action for _, action, *_ in events(ledger, batch_id)].count("publish")
    return *state(ledger, batch_id), published, query(ledger, "SELECT count(*) FROM tideline.coverage")[0][0]


def try_again(ledger, batch_id):
    attempt = claim(ledger, batch_id)
    stage(ledger, attempt)
    publish(ledger, attempt)


def test_a_commit_whose_answer_was_lost_is_found(ledger, cut_off, proxy, attempt):
    proxy.at("COMMIT", cut_after)
    publish(cut_off, attempt)
    assert proxy.acted.is_set()
    assert visible(ledger, attempt.batch_id) == ("published", 1, 1, 1)
    assert [count.n_written for count in publishing.counts(cut_off, attempt.batch_id)] == [10]


def test_a_commit_that_never_arrived_is_not_taken_for_one(ledger, cut_off, proxy, attempt):
    proxy.at("COMMIT", cut_before)
    with pytest.raises(RetryableError, match="lost during COMMIT"):
        publish(cut_off, attempt)
    assert visible(ledger, attempt.batch_id) == ("writing", 1, 0, 0)
    try_again(ledger, attempt.batch_id)
    assert visible(ledger, attempt.batch_id) == ("published", 2, 1, 1)


def test_a_commit_that_is_still_under_way_is_waited_for(ledger, cut_off, proxy, attempt):
    """The server continues after its client is gone: a query that does not wait would see the state before."""
    query(
        ledger,
        """CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON tideline.batch DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()""",
    )
    proxy.at("COMMIT", cut_meanwhile)
    publish(cut_off, attempt)
    assert proxy.acted.is_set()
    assert visible(ledger, attempt.batch_id) == ("published", 1, 1, 1)


def test_a_commit_that_a_newer_attempt_overtook_is_not_taken_for_ours(ledger, cut_off, proxy, attempt):
    def overtake(server, data):
        query(ledger, "SELECT pg_terminate_backend(%s, 5000)", cut_off.connection.info.backend_pid)
        try_again(ledger, attempt.batch_id)
        return False

    proxy.at("COMMIT", overtake)
    with pytest.raises(RetryableError, match="lost during COMMIT"):
        publish(cut_off, attempt)
    assert visible(ledger, attempt.batch_id) == ("published", 2, 1, 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_session_that_is_ended_at_any_step_publishes_nothing(ledger, cut_off, proxy, attempt, step):
    def end(server, data):
        query(ledger, "SELECT pg_terminate_backend(%s, 5000)", cut_off.connection.info.backend_pid)
        return True

    proxy.at(step, end)
    with pytest.raises(RetryableError):
        publish(cut_off, attempt)
    assert proxy.acted.is_set()
    assert visible(ledger, attempt.batch_id) == ("writing", 1, 0, 0)
    try_again(ledger, attempt.batch_id)
    assert visible(ledger, attempt.batch_id) == ("published", 2, 1, 1)


def test_the_steps_of_a_publish_are_all_tried(ledger, cut_off, proxy, attempt):
    """If the wording of a step changed, the test above would never end a session there."""
    seen = []

    def see(step):
        def act(server, data):
            seen.append(step)
            if step != STEPS[-1]:
                see(STEPS[len(seen)])
            return True

        proxy.at(step, act)

    see(STEPS[0])
    publish(cut_off, attempt)
    assert seen == STEPS


def test_a_lock_that_does_not_come_is_to_be_tried_again(ledger, ledger_url, attempt):
    with Ledger(ledger_url, actor="in the way") as other:
        query(ledger, "SET lock_timeout = '100ms'")
        with other.transaction():
            other.row("lock_batch", batch_id=attempt.batch_id)
            with pytest.raises(RetryableError, match="lock timeout"):
                publish(ledger, attempt)
    publish(ledger, attempt)
    assert visible(ledger, attempt.batch_id) == ("published", 1, 1, 1)


def test_a_server_that_is_down_is_to_be_tried_again():
    with pytest.raises(RetryableError, match="cannot be reached"):
        Ledger(f"postgresql://postgres:{secret.marked('x')}@127.0.0.1:1/ledger", actor="test")


def test_a_session_that_is_lost_as_it_begins_is_to_be_tried_again(proxy):
    proxy.at("tideline.actor", cut_before)
    with pytest.raises(RetryableError, match="cannot be reached"):
        Ledger(proxy.url, actor="cut off")


def test_a_wrong_password_is_neither_tried_again_nor_shown(ledger_url):
    with pytest.raises(FatalError, match=r"refused the connection: .*password authentication failed") as caught:
        Ledger(make_dsn(ledger_url, password=secret.marked("open sesame")), actor="test")
    assert "sesame" not in str(caught.value)
