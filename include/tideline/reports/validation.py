"""Builds the report of `tideline validate`: what was checked, what is wrong, and what was not checked."""

import sys
from contextlib import ExitStack, redirect_stdout

from tideline import settings
from tideline.authoring.validation import validated
from tideline.domain.checks import Check, Verdict
from tideline.errors import FatalError
from tideline.ledger.sessions import ledger, looking
from tideline.reports.report import Grid, Report


def validation(name: str | None, *, with_database: bool, with_registry: bool = False) -> Report:
    """Check all pipelines, or one.

    Raises:
        FatalError: There is no such pipeline, or the database refused a statement.
        RetryableError: The database or a schema registry did not answer.
    """
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))  # a transform may print, and stdout is for the result
        # The role that writes the table, and creates it.
        as_writer = ledger(variable=settings.WRITER_URL, of_any_release=True)
        session = stack.enter_context(as_writer) if with_database else None
        reader = stack.enter_context(looking()) if with_database and with_registry else None
        findings = validated(name, session, with_registry=with_registry, reader=reader)
    counts = {str(verdict): sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    grid = Grid(
        columns=("verdict", "pipeline", "where", "found"),
        rows=[(one.verdict, one.about, one.check, one.found) for one in findings],
        empty="no pipelines",
    )
    document = {"ok": not counts["bad"], "counts": counts, "findings": [_document(one) for one in findings]}
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return Report(document=document, parts=[grid, summary], exit_code=FatalError.exit_code if counts["bad"] else 0)


def _document(one: Check) -> dict[str, str]:
    return {"verdict": str(one.verdict), "pipeline": one.about, "where": one.check, "found": one.found}
