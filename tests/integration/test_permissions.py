"""The Postgres rights of docs/permissions.md are enough, and each of them is needed."""

import re
from dataclasses import replace

import psycopg2
import pytest

import granted_rights
import loading_by_hand
from granted_rights import LOAD, LOOK, OWNER, Right
from ledger_queries import query
from tideline.errors import FatalError
from tideline.ledger import invariants
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate

ALL_TABLES = "ALL TABLES IN SCHEMA tideline"
TABLES = sorted(set(re.findall(r"tideline\.(\w+)", granted_rights.AFTER_EACH_MIGRATION)) | {"migration"})
OPTIONAL = Right("TEMPORARY", "DATABASE warehouse", LOAD)


def single(role):
    """Return the rights of a role, with one for each table in place of the one for all tables."""
    found = []
    for right in granted_rights.rights(role):
        if right.on == ALL_TABLES:
            found += [Right(right.privilege, f"tideline.{table}", role) for table in TABLES]
        elif right != OPTIONAL:
            found.append(right)
    return found


@pytest.fixture(scope="module")
def warehouse(postgres):
    with granted_rights.warehouse(postgres) as made:
        yield made


def test_with_the_rights_of_the_page_a_role_does_everything(warehouse):
    name = loading_by_hand.everything(warehouse.url(LOAD))
    with Ledger(warehouse.url(LOAD), actor="test") as ledger:
        assert invariants.lacking_rights(ledger) == []
        assert invariants.output_privileges(ledger, loading_by_hand.TABLE) == {"exists": True, "can_write": True}
        states = query(ledger, "SELECT state::text FROM tideline.batch WHERE pipeline = %s ORDER BY batch_id", name)
    folded = [("advanced",), ("superseded",)]
    assert states == [("superseded",), ("advanced",), ("advanced",), ("advanced",), ("abandoned",), *folded]


@pytest.mark.parametrize("right", single(LOAD), ids=str)
def test_without_one_right_the_error_names_what_it_was_for(warehouse, right):
    with warehouse.without(right), pytest.raises(FatalError) as caught:
        loading_by_hand.everything(warehouse.url(LOAD))
    kind, name = ("table", right.on.split(".")[1]) if "." in right.on else right.on.lower().split()
    assert re.search(rf'permission denied for {kind} "?{warehouse.names.get(name, name)}\b', caught.value.problem)
    assert caught.value.entry in {"ledger-refuses", "table-refuses-rows"}


def test_doctors_query_knows_every_right_on_the_ledger(warehouse):
    """Or `tideline doctor` would report a role as able that cannot load."""
    for right in single(LOAD):
        if "tideline" in right.on and right.on != "SCHEMA tideline":
            with warehouse.without(right), Ledger(warehouse.url(LOAD), actor="test") as ledger:
                found = invariants.lacking_rights(ledger)
            assert found == [f"{right.privilege} on {right.on.replace('SCHEMA', 'schema')}"]


def test_without_temporary_tables_refused_rows_are_still_found(warehouse):
    loading_by_hand.everything(warehouse.url(LOAD), refused={2})
    with warehouse.without(OPTIONAL):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            warehouse.run("CREATE TEMPORARY TABLE mine ()", role=LOAD)
        loading_by_hand.everything(warehouse.url(LOAD), refused={2})


def test_only_the_role_that_staged_rows_can_clean_up_after_itself(warehouse):
    table = "tideline_staging.batch_1_attempt_1"
    warehouse.run(f"CREATE TABLE {table} ()", role=OWNER)
    try:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="must be owner of table"):
            warehouse.run(f"DROP TABLE {table}", role=LOAD)
    finally:
        warehouse.run(f"DROP TABLE {table}", role=OWNER)


def test_each_migration_needs_create_on_the_database(warehouse):
    with (
        warehouse.without(Right("CREATE", "DATABASE warehouse", OWNER)),
        Ledger(warehouse.url(OWNER), actor="owner") as ledger,
        pytest.raises(FatalError, match="permission denied for database"),
    ):
        migrate(ledger)


def test_target_sql_that_creates_its_schema_needs_create_on_the_database(warehouse):
    """Although the schema exists."""
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="permission denied for database"):
        warehouse.run("CREATE SCHEMA IF NOT EXISTS ads", role=LOAD)


INSPECTING = (
    ("pipelines",),
    ("streams", "{name}"),
    ("batches", "{name}"),
    ("batch", "{batch}"),
    ("coverage", "{name}"),
    ("metrics",),
    ("rejects", "{name}"),
)


def test_a_role_that_looks_can_inspect_and_change_nothing(warehouse, cli, topic):
    name = loading_by_hand.everything(warehouse.url(LOAD))
    with Ledger(warehouse.url(LOOK), actor="test") as ledger:
        [(batch,)] = query(ledger, "SELECT min(batch_id) FROM tideline.batch WHERE pipeline = %s", name)
    cli.declare(name, topic)
    shell = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": warehouse.url(LOOK)})
    for command in INSPECTING:
        assert shell(*(word.format(name=name, batch=batch) for word in command)).stdout
    abandoned = shell("abandon", str(batch + 3), "--reason", "no right to", code=20)
    assert "permission denied for table" in abandoned.stderr
    assert "hush" not in abandoned.stderr
    for table in TABLES:
        for change in (f"DELETE FROM tideline.{table}", f"INSERT INTO tideline.{table} DEFAULT VALUES"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                warehouse.run(change, role=LOOK)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        warehouse.run("CREATE TABLE tideline_staging.mine ()", role=LOOK)


def test_a_role_without_the_rejects_still_sees_everything_else(warehouse, cli, topic):
    name = loading_by_hand.everything(warehouse.url(LOAD))
    cli.declare(name, topic)
    shell = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": warehouse.url(LOOK)})
    with (
        warehouse.without(Right("SELECT", "tideline.reject", LOOK)),
        warehouse.without(Right("SELECT", "tideline.staged_reject", LOOK)),
    ):
        for command in INSPECTING[:-1]:
            shell(*(word.format(name=name, batch=1) for word in command))
        assert "tideline_ledger_up 1.0" in shell("metrics").stdout
        assert "permission denied for table reject" in shell("rejects", name, code=20).stderr
