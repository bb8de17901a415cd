"""A law of the ledger that refuses a publication is explained in a sentence: no row of the ledger or of a table reaches a person."""

import pytest

from given_ledger.ledgers import claim, plan, publish, query, stage, start_streams
from tideline.errors import NeedsOperatorError, RetryableError, TidelineError
from tideline.ledger import attempts
from tideline.ledger.database_errors import RefusedStatementError
from tideline.ledger.refused_publications import explained

CUSTOMER = "value-of-a-customer"
NAMED = """
    SELECT coalesce(c.conrelid::regclass::text, t.typname), c.conname, c.contype::text
    FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace LEFT JOIN pg_type t ON t.oid = c.contypid
    WHERE n.nspname = 'tideline' AND c.contype IN ('c', 'x')
"""
"""Each CHECK of a table or a domain, and each exclusion."""


def broken(ledger, table: str, law: str, kind: str, *, is_named: bool = True) -> None:
    """Let the server refuse something as it does where this law is broken, with a row in the detail."""
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        condition, verb = ("check_violation", "check") if kind == "c" else ("exclusion_violation", "exclusion")
        name = "CONSTRAINT" if is_named else "COLUMN"
        cursor.execute(
            f"DO $do$ BEGIN RAISE EXCEPTION USING ERRCODE = %s, {name} = %s, MESSAGE = %s, DETAIL = %s; END $do$",
            (
                condition,
                law,
                f'new row for relation "{table.partition(".")[2]}" violates {verb} constraint "{law}"',
                f"Failing row contains (1, 1, [0,10), {CUSTOMER}).",
            ),
        )


def shown(error: TidelineError) -> str:
    return f"{error.problem} {error.next_step}"


def test_no_law_of_the_ledger_shows_a_row_to_a_person(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    laws = query(ledger, NAMED)
    assert len(laws) > 50
    for table, law, kind in laws:
        with pytest.raises((NeedsOperatorError, RetryableError)) as caught, explained(attempt):
            broken(ledger, table, law, kind)
        assert "Failing row" not in shown(caught.value), law
        assert CUSTOMER not in shown(caught.value), law
        assert "[0, 10)" in caught.value.problem, law
        if kind == "c" and law != "counts_add_up":
            assert law in caught.value.problem


def test_a_refusal_that_names_no_law_shows_no_row_either(ledger):
    """A function may raise it, and say more in the detail."""
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    with pytest.raises(NeedsOperatorError) as caught, explained(attempt):
        broken(ledger, "tideline.batch_range", "counts_together", "c", is_named=False)
    assert "counts_together" in caught.value.problem
    assert CUSTOMER not in shown(caught.value)


def test_an_attempt_that_the_ledger_has_refused_keeps_no_row_as_its_problem(ledger):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    with pytest.raises(RefusedStatementError), attempts.failing(ledger, attempt):
        broken(ledger, "tideline.batch_range", "counts_together", "c")
    ((problem,),) = query(ledger, "SELECT problem FROM tideline.attempt")
    assert "counts_together" in problem
    assert CUSTOMER not in problem


@pytest.mark.parametrize(
    ("law", "read", "cut", "says"),
    [
        ("gaps_are_allowed", 9, 0, "some of its offsets have no record"),
        ("end_not_behind", 10, 1, "the log is shorter now"),
    ],
)
def test_a_law_names_the_range_that_breaks_it_and_what_has_happened(ledger, law, read, cut, says):
    whole, other = start_streams(ledger, 2)
    attempt = claim(ledger, plan(ledger, {whole: (0, 10), other: (20, 30)}))
    stage(ledger, attempt, n_read=read)
    with pytest.raises(NeedsOperatorError) as caught:
        publish(ledger, attempt, written={whole: read, other: read}, cut=cut)
    assert f"{says}" in caught.value.problem
    assert f"({law})" in caught.value.problem
    assert sum(str(piece) in caught.value.problem for piece in attempt.ranges) == 1
    assert "Failing row" not in str(caught.value)
