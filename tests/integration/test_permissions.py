"""The rights of `tideline migrate --roles` and docs/permissions.md are enough for each role, and each of them is needed."""

import re
from dataclasses import replace

import adbc_driver_postgresql.dbapi as adbc
import psycopg2
import pytest

from given_ledger import granted_rights
from given_ledger.granted_rights import Granted, Needs
from given_ledger.ledgers import query
from loads import by_hand
from tideline.errors import FatalError
from tideline.ledger import invariants, rights
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate

LOADING = ("operator", "writer", "stager")
OPTIONAL = Granted("TEMPORARY", "DATABASE warehouse", "stager")
STATES = ("superseded", *["advanced"] * 4, "superseded", "advanced", "abandoned")
EVERY = [right for duty in LOADING for right in granted_rights.granted(duty) if right != OPTIONAL]
OF_TABLES = [right for right in EVERY if right.on.startswith("tideline.")]


@pytest.fixture(scope="module")
def warehouse(postgres):
    with granted_rights.warehouse(postgres) as made:
        yield made


def test_with_their_rights_the_roles_do_everything(warehouse):
    name = by_hand.everything(warehouse.urls)
    for duty in (*LOADING, "reader"):
        with Ledger(warehouse.url(duty), actor="test") as ledger:
            assert invariants.lacking_rights(ledger, [duty]) == []
    with Ledger(warehouse.url("writer"), actor="test") as ledger:
        assert invariants.output_privileges(ledger, by_hand.TABLE) == {"exists": True, "can_write": True}
        states = query(ledger, "SELECT state::text FROM tideline.batch WHERE pipeline = %s ORDER BY batch_id", name)
    assert states == [(one,) for one in STATES]


def test_each_right_on_a_table_of_the_ledger_is_needed_by_a_statement(warehouse):
    needs = Needs(warehouse, OF_TABLES)
    with needs.looked_for():
        by_hand.everything(warehouse.urls)
    assert sorted(map(str, needs.needed)) == sorted(map(str, OF_TABLES))


@pytest.mark.parametrize("right", [one for one in EVERY if one not in OF_TABLES], ids=str)
def test_without_one_right_the_error_names_what_it_was_for(warehouse, right):
    with warehouse.without(right), pytest.raises((FatalError, adbc.Error)) as caught:
        by_hand.everything(warehouse.urls)
    kind, name = (
        ("table", right.on) if right.on.startswith(("tideline.", "ads.")) else right.on.lower().split(maxsplit=1)
    )
    name = name.replace("warehouse", warehouse.name).split("(")[0].split(".")[-1]
    assert re.search(rf'permission denied for {kind} "?{name}\b', str(caught.value))
    assert not isinstance(caught.value, FatalError) or caught.value.entry in {"ledger-refuses", "table-refuses-rows"}


def test_doctors_query_knows_every_right_on_the_ledger(warehouse):
    """Or `tideline doctor` would report a role as able that cannot load."""
    for right in EVERY:
        if "tideline" in right.on and right.on != "SCHEMA tideline":
            with warehouse.without(right), Ledger(warehouse.url(right.duty), actor="test") as ledger:
                found = invariants.lacking_rights(ledger, [right.duty])
            assert [one.lower() for one in found] == [f"{right.privilege} on {right.on}".lower()]


def test_doctor_names_what_is_missing_by_role(warehouse, cli, topic):
    name = by_hand.everything(warehouse.urls)
    cli.declare(name, topic, sink={"table": by_hand.TABLE})
    variables = {
        "TIDELINE_LEDGER_URL": warehouse.url("operator"),
        "TIDELINE_WRITER_URL": warehouse.url("writer"),
        "TIDELINE_STAGER_URL": warehouse.url("stager"),
        "TIDELINE_READER_URL": warehouse.url("reader"),
    }
    shell = replace(cli, variables={**cli.variables, **variables})

    def lines() -> list[tuple[str, str]]:
        checks = shell.json("doctor", name, code=30)["checks"]
        return [(one["verdict"], one["found"]) for one in checks if one["check"] in {"rights", "output"}]

    fine = [("ok", f"{warehouse.role(duty)} has what {duty} needs") for duty in rights.GRANTED]
    assert lines()[:4] == fine
    with warehouse.without(Granted("INSERT", "tideline.staged_reject", "stager")):
        found = lines()
    lacks = f"{warehouse.role('stager')}, of TIDELINE_STAGER_URL, lacks INSERT on tideline.staged_reject for stager"
    assert found[:4] == [*fine[:2], ("bad", lacks), fine[3]]
    with warehouse.without(Granted("INSERT", "ads.impressions", "writer")):
        assert ("bad", f"{warehouse.role('writer')} cannot write ads.impressions") in lines()


def test_the_rights_are_said_of_every_table_view_and_function_of_the_owner(warehouse):
    """Or a migration would add a table that no role can read."""
    with Ledger(warehouse.url("reader"), actor="test") as ledger:
        found = query(ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline' ORDER BY 1")
        views = query(ledger, "SELECT viewname::text FROM pg_views WHERE schemaname = 'tideline' ORDER BY 1")
        functions = query(
            ledger,
            "SELECT oid::regprocedure::text FROM pg_proc"
            " WHERE pronamespace = 'tideline'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype ORDER BY 1",
        )
    assert [name for (name,) in found] == sorted(rights.tables())
    assert [name for (name,) in views] == sorted(rights.views())
    named = {one.name for duty in rights.GRANTED for one in rights.rights(duty) if one.kind == "FUNCTION"}
    assert [name.replace(",", ", ") for (name,) in functions] == sorted(named)


def test_a_role_has_no_right_on_the_ledger_but_those(warehouse):
    with Ledger(warehouse.admin, actor="test") as ledger:
        for duty in rights.GRANTED:
            found = query(
                ledger,
                "SELECT privilege_type || ' tideline.' || relname FROM pg_class, aclexplode(relacl) AS a"
                " WHERE relnamespace = 'tideline'::regnamespace AND a.grantee = %s::regrole AND NOT is_grantable"
                " UNION ALL SELECT privilege_type || ' ' || nspname FROM pg_namespace, aclexplode(nspacl) AS a WHERE a.grantee = %s::regrole",
                *[warehouse.role(duty)] * 2,
            )
            wanted = [f"{one.privilege} {one.name}" for one in rights.rights(duty) if one.kind in {"TABLE", "SCHEMA"}]
            there = {text for (text,) in found if "ads" not in text}
            assert there == set(wanted)


def test_without_temporary_tables_refused_rows_are_still_found(warehouse):
    by_hand.everything(warehouse.urls, refused={2})
    with warehouse.without(OPTIONAL):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            warehouse.run("CREATE TEMPORARY TABLE mine ()", duty="stager")
        by_hand.everything(warehouse.urls, refused={2})


def test_each_migration_needs_create_on_the_database(warehouse):
    with (
        warehouse.without(Granted("CREATE", "DATABASE warehouse", "owner")),
        Ledger(warehouse.url("owner"), actor="owner") as ledger,
        pytest.raises(FatalError, match="permission denied for database"),
    ):
        migrate(ledger)


def test_target_sql_that_creates_its_schema_needs_create_on_the_database(warehouse):
    """Although the schema exists."""
    with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="permission denied for database"):
        warehouse.run("CREATE SCHEMA IF NOT EXISTS ads", duty="writer")


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
    name = by_hand.everything(warehouse.urls)
    with Ledger(warehouse.url("reader"), actor="test") as ledger:
        [(batch,)] = query(ledger, "SELECT min(batch_id) FROM tideline.batch WHERE pipeline = %s", name)
    cli.declare(name, topic)
    shell = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": warehouse.url("reader")})
    for command in INSPECTING:
        assert shell(*(word.format(name=name, batch=batch) for word in command)).stdout
    abandoned = shell("abandon", str(batch + 3), "--reason", "no right to", code=20)
    assert "permission denied for table" in abandoned.stderr
    assert "hush" not in abandoned.stderr


def test_a_role_without_the_rejects_still_sees_everything_else(warehouse, cli, topic):
    name = by_hand.everything(warehouse.urls)
    cli.declare(name, topic)
    shell = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": warehouse.url("reader")})
    with (
        warehouse.without(Granted("SELECT", "tideline.reject", "reader")),
        warehouse.without(Granted("SELECT", "tideline.staged_reject", "reader")),
    ):
        for command in INSPECTING[:-1]:
            shell(*(word.format(name=name, batch=1) for word in command))
        assert "tideline_ledger_up 1.0" in shell("metrics").stdout
        assert "permission denied for table reject" in shell("rejects", name, code=20).stderr
