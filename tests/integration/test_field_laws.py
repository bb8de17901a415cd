"""The laws of fields that are not declared, at a psql prompt: a task is counted once, and nothing that was counted goes."""

import pytest

from given_ledger.ledgers import acting, claim, execute, plan, query, refused, start_streams

COUNT = "SELECT tideline.count_fields(%s, %s, '{value,value}', %s, '{2,3}', '{1,1}', '{5,6}')"
FOUND = "SELECT name, n_records, record_offset FROM tideline.attempt_field ORDER BY name"


@pytest.fixture
def attempt(ledger):
    """Return the number of an attempt that stages, for which a task has counted two fields."""
    [stream] = start_streams(ledger, 1)
    number = str(claim(ledger, plan(ledger, {stream: (0, 10)})).attempt)
    execute(ledger, COUNT.replace("'{1,1}'", f"'{{{stream},{stream}}}'"), number, "1:0", ["a", "b"])
    return number


def test_a_task_that_runs_twice_is_counted_once_and_another_one_is_added(ledger, attempt):
    assert query(ledger, FOUND) == [("a", 2, 5), ("b", 3, 6)]
    execute(ledger, COUNT, attempt, "1:0", ["a", "b"])
    assert query(ledger, FOUND) == [("a", 2, 5), ("b", 3, 6)]
    execute(ledger, COUNT, attempt, "1:7", ["a", "c"])
    assert query(ledger, FOUND) == [("a", 4, 5), ("b", 3, 6), ("c", 3, 6)]


def test_an_attempt_keeps_about_two_hundred_names(ledger, attempt):
    for number in range(150):
        execute(ledger, COUNT, attempt, f"2:{number}", [f"x{number}", f"y{number}"])
    assert 200 <= len(query(ledger, FOUND)) < 210
    execute(ledger, COUNT, attempt, "3:0", ["a", "never"])
    assert ("a", 4, 5) in query(ledger, FOUND)


@pytest.mark.parametrize("statement", ["DELETE FROM tideline.attempt_field", "TRUNCATE tideline.attempt_field"])
def test_what_was_counted_never_goes(ledger, attempt, statement):
    assert "its rows are history" in refused(ledger, statement)


def test_an_attempt_that_the_ledger_does_not_know_counts_nothing(ledger, attempt):
    unknown = "00000000-0000-0000-0000-000000000000"
    assert "the ledger does not know it" in refused(ledger, COUNT, unknown, "1:0", ["a", "b"])


def test_executors_call_a_function_and_do_not_reach_the_table(ledger, attempt):
    with acting(ledger, "test_stager") as cursor:
        cursor.execute(COUNT, (attempt, "1:8", ["a", "b"]))
    right = "SELECT has_table_privilege('test_stager', 'tideline.attempt_field', %s)"
    assert [query(ledger, right, one) for one in ("SELECT", "INSERT", "UPDATE", "DELETE")] == [[(False,)]] * 4
