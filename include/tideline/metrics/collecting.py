"""Collects the numbers: first those of the ledger, then those of the brokers."""

import time
from collections.abc import Mapping, Sequence

from tideline.declaration import pipelines
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.errors import TidelineError
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.metrics import brokers, ledger
from tideline.metrics.sheet import Sheet


def collect(only: str | None = None) -> tuple[Sheet, list[TidelineError]]:
    """Return the numbers of all pipelines or of one, and why some of them are missing. Raise nothing because something does not answer."""
    sheet, problems = Sheet(), list[TidelineError]()
    declared = _declared(problems, only)
    for one in declared or ():
        sheet.put("declaration_valid", int(isinstance(one, Pipeline)), one.name)
    known = _ledger(sheet, problems, only, None if declared is None else {one.name for one in declared})
    problems += brokers.fill(sheet, [one for one in declared or () if isinstance(one, Pipeline)], known)
    if only is not None:
        sheet.only({only})
    return sheet, problems


def _declared(problems: list[TidelineError], only: str | None) -> list[Pipeline | Broken] | None:
    """Return the declared pipelines; None if their folder is not there, which must not hide what the ledger knows."""
    try:
        return pipelines.declared(chosen=lambda name: only in (None, name))
    except TidelineError as error:
        problems.append(error)
        return None


def _ledger(
    sheet: Sheet, problems: list[TidelineError], only: str | None, declared: set[str] | None
) -> Mapping[str, Sequence[Row]]:
    began = time.monotonic()
    found = Sheet()
    try:
        with looking() as session:
            known = ledger.fill(found, session, only, declared=declared)
    except TidelineError as error:
        problems.append(error)
        sheet.put("ledger_up", 0)
        return {}
    finally:
        sheet.put("collection_seconds", time.monotonic() - began, "ledger")
    # Only now: half of the ledger's numbers would look as if the others were not there.
    sheet.merge(found)
    sheet.put("ledger_up", 1)
    return known
