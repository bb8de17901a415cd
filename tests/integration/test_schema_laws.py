"""The laws of kept schemas, tried from a psql prompt: an id means one schema for ever."""

import pytest

from given_ledger.ledgers import acting, claim, execute, plan, query, refused, start_streams

KEEP = "SELECT tideline.keep_schema(%s, 'default', %s, 'AVRO', %s, '{}', '{}', '{orders-value}')"
USE = "SELECT schema_id, schema FROM tideline.use_schemas(%s, %s, 'default', %s)"


@pytest.fixture
def attempt(ledger):
    """Return the number of an attempt whose pipeline has kept a schema, and uses it."""
    [stream] = start_streams(ledger, 1)
    number = str(claim(ledger, plan(ledger, {stream: (0, 10)})).attempt)
    execute(ledger, KEEP, number, 1, '"long"')
    execute(ledger, USE, number, "value", [1])
    return number


@pytest.mark.parametrize("table", ["schema", "registered_schema", "attempt_schema"])
def test_what_was_kept_never_changes(ledger, attempt, table):
    column = {"schema": "kind", "registered_schema": "registry", "attempt_schema": "part"}[table]
    for statement in (
        f"UPDATE tideline.{table} SET {column} = 'key'",
        f"DELETE FROM tideline.{table}",
        f"TRUNCATE tideline.{table} CASCADE",
    ):
        assert "its rows are history" in refused(ledger, statement)


def test_a_schema_is_kept_under_the_hash_of_its_text(ledger):
    other = "INSERT INTO tideline.schema (schema_hash, kind, text) VALUES (sha256('long'), 'AVRO', 'long')"
    assert "hash_is_of_the_text" in refused(ledger, other)


def test_each_schema_that_one_refers_to_has_a_name(ledger, attempt):
    unnamed = KEEP.replace("'{}', '{}', '{orders-value}'", "'{}', '{text}', '{orders-value}'")
    assert "each_reference_has_a_name" in refused(ledger, unnamed, attempt, 2, '"int"')


def test_an_id_that_is_kept_keeps_its_first_meaning(ledger, attempt):
    execute(ledger, KEEP, attempt, 1, '"string"')
    assert query(ledger, USE, attempt, "value", [1]) == [(1, '"long"')]
    again = "INSERT INTO tideline.registered_schema SELECT * FROM tideline.registered_schema"
    assert "registered_schema_pkey" in refused(ledger, again)


def test_ids_are_those_of_one_pipeline(ledger, attempt):
    [stream] = start_streams(ledger, 1, pipeline="other")
    other = str(claim(ledger, plan(ledger, {stream: (0, 10)}, pipeline="other")).attempt)
    assert query(ledger, USE, other, "value", [1]) == []
    execute(ledger, KEEP, other, 1, '"string"')
    assert query(ledger, USE, other, "value", [1]) == [(1, '"string"')]
    assert query(ledger, USE, attempt, "value", [1]) == [(1, '"long"')]


def test_only_what_is_kept_can_have_been_used(ledger, attempt):
    assert query(ledger, USE, attempt, "key", [2, 1]) == [(1, '"long"')]
    assert query(ledger, "SELECT part, schema_id FROM tideline.attempt_schema ORDER BY 1") == [("key", 1), ("value", 1)]
    other = "INSERT INTO tideline.attempt_schema SELECT attempt_id, part, 2, pipeline, registry FROM tideline.attempt_schema"
    assert "is not present in table" in refused(ledger, other)


@pytest.mark.parametrize("statement", [KEEP, USE])
def test_an_attempt_that_the_ledger_does_not_know_keeps_and_uses_nothing(ledger, statement):
    number = "00000000-0000-0000-0000-000000000000"
    parameters = (number, 1, '"long"') if statement == KEEP else (number, "value", [1])
    assert "the ledger does not know it" in refused(ledger, statement, *parameters)


def test_executors_call_two_functions_and_reach_no_table(ledger, attempt):
    with acting(ledger, "test_stager") as cursor:
        cursor.execute(KEEP, (attempt, 2, '"int"'))
        cursor.execute(USE, (attempt, "value", [1, 2]))
        assert len(cursor.fetchall()) == 2
    for table in ("schema", "registered_schema", "attempt_schema"):
        right = "SELECT has_table_privilege('test_stager', %s, %s)"
        found = [query(ledger, right, f"tideline.{table}", one) for one in ("SELECT", "INSERT", "UPDATE", "DELETE")]
        assert found == [[(False,)]] * 4
