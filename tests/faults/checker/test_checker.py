"""The checker finds nothing where nothing is wrong."""

from faults import records
from faults.checker import read, violations
from faults.checker.healthy import NAME, TABLE


def checked(whole, *, quiet, **flags):
    with read(whole.url, NAME, TABLE, records.OUTPUT) as found:
        return violations(found, whole.truth, quiet=quiet, **flags)


def test_a_ledger_that_has_come_to_rest_breaks_no_law(quiet):
    assert checked(quiet, quiet=True) == []
    assert checked(quiet, quiet=False) == []


def test_work_under_way_breaks_no_law_until_all_should_be_through(busy):
    assert checked(busy, quiet=False) == []
    assert {violation.law for violation in checked(busy, quiet=True)} == {"jammed", "unread"}
