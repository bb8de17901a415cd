"""A bad row affects only itself; a step that fails for every row is named."""

import pyarrow as pa
import pytest

from tideline.records.row_bisection import SAMPLE, StepError, isolate

TABLE = pa.table({"n": range(1000)})


def refusing(bad):
    """Return a step that counts rows and raises for the rows in `bad`."""

    def step(part: pa.Table) -> int:
        if found := bad.intersection(part["n"].to_pylist()):
            raise ValueError(f"cannot take {min(found)}")
        return len(part)

    return step


@pytest.mark.parametrize("bad", [set(), {0}, {999}, {3, 4, 500}, set(range(0, 1000, 7))])
def test_a_bad_row_costs_itself(bad):
    taken, refusals = isolate(TABLE, refusing(bad), (ValueError,), suspect="it")
    assert sum(taken) == 1000 - len(bad)
    assert [refusal.row["n"][0].as_py() for refusal in refusals] == sorted(bad)


def test_a_run_of_bad_rows_at_the_start_is_no_fault_of_the_step():
    taken, refusals = isolate(TABLE, refusing(set(range(3 * SAMPLE))), (ValueError,), suspect="it")
    assert (sum(taken), len(refusals)) == (1000 - 3 * SAMPLE, 3 * SAMPLE)


def test_a_step_that_fails_throughout_is_named():
    with pytest.raises(
        StepError, match=r"transform\.py failed for each of the first 100 records: ValueError: cannot take"
    ):
        isolate(TABLE, refusing(set(range(1000))), (ValueError,), suspect="transform.py")


def test_where_only_rows_can_be_at_fault_all_of_them_are_refused():
    taken, refusals = isolate(TABLE, refusing(set(range(1000))), (ValueError,), suspect=None)
    assert (taken, len(refusals)) == ([], 1000)
