"""What is read from a report of pytest."""

import pytest_report

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.test_x" name="holds" time="1.5" />
<testcase classname="tests.test_x" name="breaks"><failure message="no&#10;more" /></testcase>
<testcase classname="tests.test_x" name="breaks"><error message="cannot end" /></testcase>
<testcase classname="tests.test_x" name="cannot begin"><error message="no" /></testcase>
<testcase classname="tests.test_x" name="later"><skipped message="-" /></testcase>
</testsuite></testsuites>
"""


def test_a_test_counts_once_also_if_its_fixture_fails_as_well(tmp_path):
    file = tmp_path / "report.xml"
    file.write_text(REPORT)
    found = pytest_report.read(file)
    assert (found.passed, found.skipped) == (1, 1)
    assert found.failed == [
        ("tests/test_x::breaks", "no"),
        ("tests/test_x::breaks", "cannot end"),
        ("tests/test_x::cannot begin", "no"),
    ]
    assert found.times[0] == (1.5, "tests/test_x::holds")
