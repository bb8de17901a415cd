"""The runbook that the page serves is the one of the documents, and has the entry of every error."""

import re
import runpy

import pytest

from tideline.settings import PROJECT

DRAWING = runpy.run_path(str(PROJECT / "docs" / "runbook_page.py"))
RUNBOOK = PROJECT / "include" / "tideline" / "web" / "static" / "runbook.html"


def test_the_runbook_of_the_page_is_that_of_the_documents():
    text = (PROJECT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert DRAWING["drawn"](text) == RUNBOOK.read_text(encoding="utf-8"), (
        "write it again: .local/env/bin/python docs/runbook_page.py"
    )


@pytest.mark.parametrize("folder", ["include", "spark_jobs"])
def test_every_entry_that_an_error_names_is_on_the_page(folder):
    anchors = {*re.findall(r'<h\d id="([^"]+)"', RUNBOOK.read_text(encoding="utf-8"))}
    files = [*(PROJECT / folder).rglob("*.py")]
    named = {entry for file in files for entry in re.findall(r'entry="([a-z0-9-]+)"', file.read_text(encoding="utf-8"))}
    assert named
    assert named <= anchors
    assert "javascript" not in RUNBOOK.read_text(encoding="utf-8").lower()
