"""The pages of `tideline migrate`: what was applied, or what is missing."""

from tideline.cli.output import Page
from tideline.cli.session import ledger, moment
from tideline.ledger import invariants, versions
from tideline.ledger.migrate import migrate

_MISSING = 30  # as for a check that failed


def apply() -> Page:
    """Bring the ledger up to date, and show the migrations that were applied."""
    with ledger(of_any_release=True) as session:
        applied = migrate(session)
    said = f"applied {', '.join(applied)}" if applied else "the ledger is up to date"
    return Page(document={"applied": applied}, parts=[said])


def check() -> Page:
    """Show the migrations that the ledger lacks, and change nothing."""
    known = versions.migrations()
    with ledger(of_any_release=True) as session, moment(session):
        has_ledger = invariants.server(session)["has_ledger"]
        missing = [known[number][0] for number in (versions.missing(session, known) if has_ledger else known)]
    said = f"missing: {', '.join(missing)}; run: tideline migrate" if missing else "the ledger is up to date"
    return Page(document={"missing": missing}, parts=[said], exit_code=_MISSING if missing else 0)
