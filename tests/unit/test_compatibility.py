"""The table of `make compatibility` in docs/deploy.md, and what is printed of failed tests."""

import pytest

from compatibility import __main__ as compatibility
from compatibility.copies import Copy, with_broker
from tideline.settings import PROJECT

ROW = "| newest | 9.9 | 9.9 | 99.9 | 9.9.9 | 1 | 0 | 0 | 2030-01-01 |\n"


def test_a_failed_test_is_run_again_by_the_command_that_is_shown(tmp_path):
    copy = Copy(tmp_path / "a copy", tmp_path / "pg")
    assert compatibility.again(copy, "tests/e2e/test_x::test_it[a b]") == (
        f"cd '{tmp_path}/a copy' && TIDELINE_POSTGRES_PROGRAMS={tmp_path}/pg "
        ".local/env/bin/python -m pytest 'tests/e2e/test_x.py::test_it[a b]'"
    )


def test_a_row_takes_the_place_of_its_set_and_no_other():
    page = compatibility.PAGE.read_text(encoding="utf-8")
    changed = compatibility.with_row(page, ROW)
    assert changed.count(ROW) == 1
    assert compatibility.with_row(changed, ROW) == changed
    kept = [line for line in page.splitlines() if not line.startswith("| newest |")]
    assert [line for line in changed.splitlines() if f"{line}\n" != ROW] == kept


def test_the_page_has_a_row_for_each_set_of_versions():
    page = compatibility.PAGE.read_text(encoding="utf-8")
    _, _, table = page.partition("<!-- written by make compatibility -->\n")
    names = [line.split("|")[1].strip() for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert names == list(compatibility.SETS)


def test_the_list_of_jars_has_one_broker_to_replace():
    text = (PROJECT / "include" / "tideline" / "deployment" / "ivy.xml").read_text(encoding="utf-8")
    assert 'name="kafka_2.13" rev="3.7.2"' in with_broker(text, "3.7.2")
    with pytest.raises(AssertionError, match="found 0"):
        with_broker("<ivy-module/>", "3.7.2")
