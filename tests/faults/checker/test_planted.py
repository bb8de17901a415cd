"""The checker reports every law that is violated.

Each test plants one violation, past every constraint with which the database would refuse it.
"""

from contextlib import closing
from uuid import UUID

import psycopg2
import pytest

from faults import records
from faults.checker import LAWS, violations
from faults.checker.healthy import NAME, TABLE
from faults.checker.plants import PLACES, plants
from faults.checker.snapshots import Reading
from faults.checker.test_planted_states import STATEFUL

AT_REST = {"jammed", "unsettled", "unread", "unfollowed", "unannounced"}
FOLLOWED = [(UUID(int=2), partition) for partition in (0, 1, 2)]


def laws_broken_by(plant, whole, *, quiet):
    """Plant in a transaction that is never committed, and check within it."""
    with closing(psycopg2.connect(whole.url)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(plant.statements, PLACES)
        found = Reading(connection, NAME, TABLE).found(records.OUTPUT)
        return {violation.law for violation in violations(found, whole.truth, quiet=quiet, follows=FOLLOWED)}


@pytest.mark.parametrize("plant", [plant for plant in plants() if plant.law not in AT_REST], ids=str)
def test_a_law_that_is_broken_is_named_and_no_other(busy, plant):
    assert laws_broken_by(plant, busy, quiet=False) == {plant.law, *plant.also}


@pytest.mark.parametrize("plant", [plant for plant in plants() if plant.law in AT_REST], ids=str)
def test_what_has_not_come_to_rest_is_named_when_all_should_have(quiet, plant):
    assert laws_broken_by(plant, quiet, quiet=True) == {plant.law, *plant.also}
    assert laws_broken_by(plant, quiet, quiet=False) == set()


def test_every_law_has_been_broken():
    assert {plant.law for plant in plants()} | {law for law, _, _ in STATEFUL.values()} == LAWS.keys()
