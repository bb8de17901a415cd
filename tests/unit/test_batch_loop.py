"""A batch that fails affects only itself, and an error that every batch would meet ends the run at once."""

import pytest

from tideline.errors import FatalError, NeedsOperatorError, RetryableError, SupersededError
from tideline.spark_jobs.batch_loop import each_by_itself


def fatal(what):
    return FatalError(f"{what} is wrong", next_step=f"correct {what}")


def asks(what):
    return NeedsOperatorError(f"{what} is gone", next_step=f"decide about {what}")


def hiccup(what):
    return RetryableError(f"{what} did not answer", next_step="run the task again")


def written(begins=None, loads=None, batch_ids=(1, 2, 3), **options):
    """Run the loop; return the batches that were loaded and the error that it raised."""
    loaded, begins, loads = [], begins or {}, loads or {}

    def begin(batch_id):
        if batch_id in begins:
            raise begins[batch_id]
        return batch_id if batch_id != 9 else None

    def load(batch_id):
        if batch_id in loads:
            raise loads[batch_id]
        loaded.append(batch_id)

    try:
        each_by_itself("ads", batch_ids, begin, load, **options)
    except Exception as error:  # noqa: BLE001 - the test checks it
        return loaded, error
    return loaded, None


@pytest.mark.parametrize("error", [fatal("one"), asks("one"), hiccup("one")])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_batch_that_fails_does_not_keep_the_others_from_being_written(error, number):
    assert written(loads={number: error}) == ([n for n in (1, 2, 3) if n != number], error)


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("of a library"), MemoryError()])
@pytest.mark.parametrize("where", ["begins", "loads"])
def test_an_error_of_no_class_of_ours_affects_no_other_batch_either(error, where, capsys):
    loaded, found = written(**{where: {2: error}})
    assert (loaded, type(found), found.entry) == ([1, 3], RetryableError, "unexpected-error")
    assert found.__cause__ is error
    assert f"ads batch 2: an error that Tideline does not know: {type(error).__name__}" in found.problem
    assert "Traceback" in capsys.readouterr().out
    assert written(**{where: {2: error}}, in_order=True)[0] == [1]


@pytest.mark.parametrize("where", ["begins", "loads"])
def test_a_batch_that_others_need_keeps_them_from_being_tried(where):
    error = asks("two")
    assert written(**{where: {2: error}}, in_order=True) == ([1], error)
    assert written(in_order=True) == ([1, 2, 3], None)


def test_a_batch_that_cannot_be_read_does_not_keep_the_others_from_being_written():
    error = asks("one")
    assert written(begins={1: error}) == ([2, 3], error)


@pytest.mark.parametrize("error", [fatal("the declaration"), hiccup("the ledger"), SupersededError("x", next_step="")])
def test_what_each_of_the_others_would_meet_as_well_ends_the_run_at_once(error):
    assert written(begins={2: error}) == ([1], error)


def test_a_newer_try_takes_the_others_over():
    error = SupersededError("a newer try has it", next_step="nothing")
    assert written(loads={2: error}) == ([1], error)


def test_a_batch_with_nothing_left_to_write_is_left_out():
    assert written(batch_ids=(9, 1)) == ([1], None)


def test_where_several_fail_another_try_is_made_if_it_may_help_one_of_them():
    loaded, error = written(loads={1: fatal("one"), 3: hiccup("three")})
    assert (loaded, type(error)) == ([2], RetryableError)
    assert "2 of 3 batches failed (the others are written)" in error.problem
    assert "one is wrong" in error.problem
    assert "three did not answer" in error.problem
    assert error.next_step.splitlines() == ["correct one", "    run the task again"]


def test_where_several_fail_what_needs_a_person_comes_before_what_is_wrong():
    _, error = written(loads={1: fatal("one"), 3: asks("three")})
    assert (type(error), error.entry) == (NeedsOperatorError, "batches-need-a-person")
    assert type(written(loads={1: fatal("one"), 3: fatal("three")})[1]) is FatalError
