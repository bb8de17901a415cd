"""The keys whose timers have come are read in pages, and no transaction is open while the author's processor runs."""

from datetime import UTC, datetime, timedelta

import pytest

from given_ledger.ledgers import PIPELINE, claim, execute, query, start_streams
from given_ledger.states import folded, planned, staged
from stateful_events import rules
from tideline.ledger.connection import Ledger
from tideline.ledger.folding import SUFFIX
from tideline.sinks.postgres.due_timers import Reached, count_due
from tideline.sinks.postgres.state_session import StateSession

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
N_STORED = 23


def key(number):
    return f'["u{number}"]'


@pytest.fixture
def scene(ledger):
    """Store states of two streams, many with the same timer; stage others; return the attempt, the table, and what is due."""
    one, other = start_streams(ledger, 2)
    stored = [(1, key(n), one, {"clicks": n}, (NOON, LATER, None)[n % 3], n) for n in range(N_STORED)]
    stored += [(1, key(100 + n), other, {"clicks": n}, NOON, n) for n in range(N_STORED)]
    folded(ledger, planned(ledger, {one: (0, 50), other: (0, 50)}), stored)
    # The batch has given 0 another timer, has ended 3, and has made 200 and 201; what another task has staged does not count.
    rows = [
        (1, key(0), one, {"clicks": 50}, LATER, 50),
        (1, key(3), one, None, None, 51),
        (1, key(200), one, {"clicks": 1}, NOON, 52),
        (1, key(201), one, {"clicks": 1}, NOON - timedelta(days=1), 53),
    ]
    attempt = claim(ledger, planned(ledger, {one: (50, 60), other: (50, 60)}))
    table = staged(ledger, attempt, rows).table
    lost = (
        f"INSERT INTO tideline_staging.{table} (tideline_task, phase, key, stream_id, value, expires_at, kafka_offset)"
    )
    execute(ledger, f"{lost} VALUES (9, 1, %s, %s, '{{}}', %s, 55)", key(9), one, NOON)
    due = {(key(n), f"ads/{one_of}") for one_of, n in [(0, 200), (0, 201)]}
    due |= {(key(n), "ads/0") for n in range(N_STORED) if n % 3 == 0 and n not in {0, 3}}
    return attempt, table.removesuffix(SUFFIX), due


def session(ledger, table):
    """Return what one task reads with."""
    return StateSession(
        place=None, pipeline=PIPELINE, target=None, table=table, rules=rules(), ledger=ledger, copier=None, task=7, phase=2
    )  # fmt: skip


def reached(keeps_other):
    return [Reached("ads", 0, NOON, keeps=True), Reached("ads", 1, NOON, keeps=keeps_other)]


@pytest.mark.parametrize("at_once", [1, 2, 3, 1000])
@pytest.mark.parametrize("n_parts", [1, 3])
@pytest.mark.parametrize("keeps_other", [True, False])
def test_pages_hold_each_key_whose_timer_has_come_once(ledger, scene, at_once, n_parts, keeps_other):
    attempt, table, expected = scene
    due = count_due(ledger, attempt, table, reached(keeps_other), [1])
    if keeps_other:
        expected = expected | {(key(100 + n), "ads/1") for n in range(N_STORED)}
    found = [
        (name, one.stream)
        for part in range(n_parts)
        for name, one in session(ledger, table).due(due, [1], part, n_parts, at_once)
    ]
    assert len(found) == len(expected)
    assert set(found) == expected
    assert sum(one.n_keys for one in due) == len(expected)


def test_no_transaction_is_open_while_the_processor_runs(ledger, ledger_url, scene):
    """The server ends a session that leaves one idle for a minute, at the same key at each try. A processor may need longer for a page."""
    attempt, table, _ = scene
    due = count_due(ledger, attempt, table, reached(True), [1])
    with Ledger(ledger_url, actor="spark task") as task:
        pid = task.connection.info.backend_pid
        seen = set()
        for _ in session(task, table).due(due, [1], 0, 1, 4):
            [(state,)] = query(ledger, "SELECT state FROM pg_stat_activity WHERE pid = %s", pid)
            ledger.connection.commit()
            seen.add(state)
    assert seen == {"idle"}


def test_nothing_is_read_where_no_timer_has_come(ledger, scene):
    attempt, table, _ = scene
    assert count_due(ledger, attempt, table, [Reached("ads", 0, NOON - timedelta(days=2), keeps=True)], [1]) == []
    assert count_due(ledger, attempt, table, [], [1]) == []
