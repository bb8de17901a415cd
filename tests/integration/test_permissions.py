"""The rights of docs/permissions.md are enough in Postgres, and each of them is needed."""

import re

import pytest

import granting
import loading_by_hand
from asking import query
from granting import LOAD, LOOK, OWNER, Right
from tideline.errors import FatalError
from tideline.ledger import invariants
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate

ALL_TABLES = "ALL TABLES IN SCHEMA tideline"
TABLES = sorted(set(re.findall(r"tideline\.(\w+)", granting.AFTER_EACH_MIGRATION)) | {"migration"})
OPTIONAL = {Right("TEMPORARY", "DATABASE warehouse", LOAD)}


def single(role):
    """Return the rights of a role, with one for each table in place of the one for all tables."""
    for right in granting.rights(role):
        if right.on == ALL_TABLES:
            yield from (Right(right.privilege, f"tideline.{table}", role) for table in TABLES)
        elif right not in OPTIONAL:
            yield right


@pytest.fixture(scope="module")
def warehouse(postgres):
    with granting.warehouse(postgres) as made:
        yield made


def test_with_the_rights_of_the_page_a_role_does_everything(warehouse):
    name = loading_by_hand.everything(warehouse.url(LOAD))
    with Ledger(warehouse.url(LOAD), actor="test") as ledger:
        assert invariants.lacking_rights(ledger) == []
        assert invariants.output_privileges(ledger, loading_by_hand.TABLE) == {"exists": True, "can_write": True}
        states = query(ledger, "SELECT state::text FROM tideline.batch WHERE pipeline = %s ORDER BY batch_id", name)
    assert states == [("superseded",), ("advanced",), ("advanced",), ("abandoned",)]


@pytest.mark.parametrize("right", list(single(LOAD)), ids=str)
def test_without_one_right_the_error_names_what_it_was_for(warehouse, right):
    with warehouse.without(right), pytest.raises(FatalError) as caught:
        loading_by_hand.everything(warehouse.url(LOAD))
    kind, name = ("table", right.on) if "." in right.on else right.on.lower().split()
    name = warehouse.names.get(name, name).rpartition(".")[2]
    assert f'permission denied for {kind} "{name}"' in caught.value.problem.replace(f"{kind} {name}", f'{kind} "{name}"')
    assert caught.value.entry in {"ledger-refuses", "table-refuses-rows"}
