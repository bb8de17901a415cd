"""Errors are shown on the page as they were written: in lines, with a link to their entry of the runbook, and with the cause that they have."""

from datetime import UTC, datetime

from tideline.errors import FatalError, RetryableError
from tideline.web import rendering
from tideline.web.broker_cache import Compared

GONE = FatalError("expected a folder for pipeline 'gone', found none", next_step="declare it")
AWAY = RetryableError("the brokers do not answer", next_step="wait")


def shown(problem):
    template = rendering._environment().from_string("{{ text | problem('/tideline') }}")
    return template.render(text=problem)


def coverage(problem, *, declared, retired=False):
    found = Compared(rows=(), problem=problem, missing=())
    given = {"acts": False, "asking": False, "bars": [], "meanings": {}, "needs": [], "new": []}
    template = rendering._environment().get_template("coverage.html")
    return template.render(
        root="", pipeline="gone", found=found, declared=declared, retired=retired, at=datetime.now(UTC), **given
    )


def test_a_problem_has_its_lines_and_a_link_to_its_entry():
    problem = str(FatalError("orders: <b>\x1b[31m", next_step="see it", entry="stream-stopped"))
    first, second, third = shown(problem).splitlines()
    assert first == r"orders: &lt;b&gt;\x1b[31m"
    assert second == "  Next: see it"
    link = '<a href="/tideline/static/runbook.html#stream-stopped">docs/runbook.md#stream-stopped</a>'
    assert third == f"  More: {link}"
    assert shown(None) == shown("") == "\N{EN DASH}"


def test_a_pipeline_whose_folder_is_gone_is_not_said_to_have_brokers_that_do_not_answer():
    said = coverage(GONE, declared=False)
    assert "No folder declares this pipeline." in said
    assert "Kafka does not answer" not in said
    assert "Its declaration has a mistake." in coverage(GONE, declared=True)
    assert "Kafka does not answer." in coverage(AWAY, declared=True)


def test_a_pipeline_whose_folder_is_gone_names_the_command_that_takes_it_out_of_sight():
    command = "tideline retire gone --reason"
    assert command in coverage(GONE, declared=False)
    assert command not in coverage(GONE, declared=False, retired=True)
    assert command not in coverage(GONE, declared=True)
    assert command not in coverage(AWAY, declared=False)
