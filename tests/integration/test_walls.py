"""What a role could do with its rights to break a law: each attack is tried by the roles that have the rights, and a law refuses it."""

import psycopg2.errors
import pytest

from given_ledger.decisions import HOLE, load, replay
from given_ledger.ledgers import acting, claim, execute, plan, publish, published, query, refused, start_streams
from tideline.domain.states import BatchKind
from tideline.ledger import reservations

OF_ANOTHER = """
    INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, decided_in)
    VALUES ({stream}, '[0, 10)', '{hole}', 'poison', 'ada', '3')
    """
AGAIN = """
    WITH gone AS (DELETE FROM tideline.coverage WHERE hole IS NOT NULL RETURNING *)
    INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, recorded_at, decided_in)
    SELECT stream_id, offsets, hole, reason, decided_by, recorded_at, decided_in FROM gone
    """
DECIDING = ("operator", "writer")
"""The roles that may insert coverage and events."""


@pytest.fixture
def stream(ledger):
    (stream,) = start_streams(ledger, 1)
    return stream


# Holes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hole", ["skipped", "lost", "rewound"])
def test_no_hole_is_left_in_the_name_of_another_transaction(ledger, stream, hole):
    """It would leave no event, and could lie over what a batch has reserved."""
    forged = OF_ANOTHER.format(stream=stream, hole=hole)
    assert "no rest of a hole" in refused(ledger, forged, by=DECIDING)
    plan(ledger, {stream: (0, 10)})
    assert "no rest of a hole" in refused(ledger, forged, by=DECIDING)


@pytest.mark.parametrize("hole", ["skipped", "lost", "rewound"])
def test_what_is_loaded_does_not_become_a_hole_of_another_transaction(ledger, stream, hole):
    published(ledger, {stream: (0, 10)})
    forged = f"DELETE FROM tideline.coverage; {OF_ANOTHER.format(stream=stream, hole=hole)}"
    assert "no rest of a hole" in refused(ledger, forged, by=DECIDING)


@pytest.mark.parametrize("hole", ["skipped", "lost"])
def test_what_is_loaded_is_not_given_up(ledger, stream, hole):
    published(ledger, {stream: (0, 10)})
    decided = HOLE.replace("skipped", hole)
    text = refused(ledger, f"DELETE FROM tideline.coverage; {decided}", stream, "[0, 10)", by=DECIDING)
    assert "are reserved by a batch" in text


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("SELECT stream_id, offsets", "SELECT stream_id, '[0, 11)'"),
        ("SELECT stream_id, offsets", "SELECT stream_id + 1, offsets"),
        (" hole, reason, decided_by, recorded_at, decided_in FROM", " 'lost', reason, decided_by, recorded_at, decided_in FROM"),
        (" reason, decided_by, recorded_at, decided_in FROM", " 'x', decided_by, recorded_at, decided_in FROM"),
        (" decided_by, recorded_at, decided_in FROM", " 'bob', recorded_at, decided_in FROM"),
        (" recorded_at, decided_in FROM", " now(), decided_in FROM"),
        (" decided_in FROM", " '3' FROM"),
    ],
)  # fmt: skip
def test_the_rest_of_a_hole_stays_as_it_was_decided(ledger, was, becomes):
    (stream, _) = start_streams(ledger, 2)
    execute(ledger, HOLE, stream, "[0, 10)")
    execute(ledger, AGAIN)
    assert was in AGAIN
    assert "no rest of a hole" in refused(ledger, AGAIN.replace(was, becomes), by=DECIDING)


def test_a_hole_that_is_gone_is_forgotten_with_its_transaction(ledger, stream):
    execute(ledger, HOLE, stream, "[0, 10)")
    before = query(ledger, "SELECT decided_in, recorded_at FROM tideline.coverage")[0]
    publish(ledger, replay(ledger, stream, 2, 10, BatchKind.BACKFILL))
    assert query(ledger, "SELECT FROM tideline.gone_hole") == []
    back = (
        "DELETE FROM tideline.coverage WHERE batch_id IS NOT NULL;"
        " INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by, decided_in, recorded_at)"
        " VALUES (%s, '[2, 10)', 'skipped', 'poison', 'ada', %s, %s)"
    )
    assert "no rest of a hole" in refused(ledger, back, stream, *before, by=DECIDING)


@pytest.mark.parametrize(
    "change",
    [
        "decided_by = 'bob', reason = 'x', hole = 'lost' WHERE hole = 'skipped'",
        "hole = 'rewound' WHERE hole = 'skipped'",
        "recorded_at = now() WHERE hole = 'skipped'",
        "decided_in = '3' WHERE hole = 'skipped'",
        "offsets = '[0, 10)' WHERE batch_id IS NOT NULL",
    ],
)
def test_who_decided_what_and_who_loaded_what_is_not_rewritten(ledger, stream, change):
    published(ledger, {stream: (0, 10)})
    execute(ledger, HOLE, stream, "[10, 20)")
    before = query(ledger, "SELECT * FROM tideline.coverage ORDER BY 1")
    assert "history" in refused(ledger, f"UPDATE tideline.coverage SET {change}", by=["writer"])
    assert query(ledger, "SELECT * FROM tideline.coverage ORDER BY 1") == before


# Rejects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [BatchKind.REDRIVE, BatchKind.REPLAY])
@pytest.mark.parametrize("rest", ["", "; UPDATE tideline.batch SET state = 'failed' WHERE state = 'writing'"])
def test_rejects_go_only_with_the_batch_that_loads_their_records(ledger, stream, kind, rest):
    load(ledger, stream, 0, 10, 3, 5)
    batch_id = plan(ledger, {stream: (0, 10)}, kind=kind, gaps_allowed=kind is BatchKind.REDRIVE)
    if kind is BatchKind.REDRIVE:
        with ledger.transaction():
            reservations.take_rejects(ledger, [batch_id], of_batch=None, reason_like=None)
    claim(ledger, batch_id)
    assert "is published in the same" in refused(ledger, f"DELETE FROM tideline.reject{rest}", by=DECIDING)
    assert query(ledger, "SELECT kafka_offset FROM tideline.reject ORDER BY 1") == [(3,), (5,)]
    assert query(ledger, "SELECT FROM tideline.gone_reject") == []


# Events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        "(action, pipeline) VALUES ('skip', 'impressions')",
        "(action, pipeline) VALUES ('prune', 'impressions')",
        "(action, pipeline, from_state, to_state) VALUES ('publish', 'impressions', 'writing', 'published')",
        "(action, pipeline, to_state) VALUES ('retry', 'impressions', 'published')",
    ],
)
def test_no_event_of_a_law_is_forged(ledger, stream, columns):
    assert "written with what it records" in refused(ledger, f"INSERT INTO tideline.event {columns}", by=DECIDING)


@pytest.mark.parametrize("duty", DECIDING)
def test_that_events_were_deleted_is_recorded_by_the_deletion_only(ledger, stream, duty):
    forged = "INSERT INTO tideline.event (action, pipeline) VALUES ('prune events', 'impressions')"
    with pytest.raises(psycopg2.errors.RestrictViolation), acting(ledger, f"test_{duty}") as cursor:
        cursor.execute(forged)


@pytest.mark.parametrize("duty", DECIDING)
def test_the_database_says_when_an_event_was_and_whose_session(ledger, stream, duty):
    with acting(ledger, f"test_{duty}") as cursor:
        cursor.execute(
            "SET LOCAL tideline.actor = 'ada'; INSERT INTO tideline.event (at, actor, login, action, pipeline)"
            " VALUES ('2001-01-01', 'bob', 'eve', 'retry', 'impressions')"
        )
    found = query(
        ledger,
        "SELECT at > now() - interval '1 hour', actor, login = session_user FROM tideline.event WHERE action = 'retry'",
    )
    assert found == [(True, "ada", True)]


def test_no_role_chooses_the_place_of_an_event(ledger, stream):
    """Before others it would change history, and at the next place fail the transaction whose event would stand there."""
    add = "INSERT INTO tideline.event (event_id, action, pipeline) OVERRIDING SYSTEM VALUE"
    ((newest,),) = query(ledger, "SELECT max(event_id) FROM tideline.event")
    for chosen in (0, newest + 1, newest + 2):
        forged = f"{add} VALUES ({chosen}, 'retry', 'impressions')"
        assert "was chosen by the statement" in refused(ledger, forged, by=DECIDING)


def test_a_deletion_of_events_leaves_one(ledger, stream):
    old = "SET LOCAL session_replication_role = replica; UPDATE tideline.event SET at = at - interval '3 days'"
    execute(ledger, old)
    for n_events in (1, 0):
        with acting(ledger, "test_operator") as cursor:
            cursor.execute("SELECT tideline.prune_events('impressions', 1)")
            assert cursor.fetchone()[0] == n_events
    left = query(ledger, "SELECT action, detail FROM tideline.event")
    assert left == [("prune events", {"days": 1, "n_events": 1})]
