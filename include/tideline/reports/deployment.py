"""Brings the ledger up to date and downloads jars, and reports what was done, or what is missing."""

from pathlib import Path

from tideline.deployment.jars import fetch
from tideline.ledger import invariants, roles, versions
from tideline.ledger.migrate import migrate
from tideline.ledger.sessions import ledger, moment
from tideline.reports.report import Grid, Report

_MISSING = 30  # as for a check that failed
_USED_BY = {
    "owner": ("migrations", "TIDELINE_LEDGER_URL, for tideline migrate only"),
    "operator": ("tasks, and commands that act", "TIDELINE_LEDGER_URL"),
    "writer": ("Spark drivers", "TIDELINE_WRITER_URL"),
    "stager": ("Spark executors", "TIDELINE_STAGER_URL"),
    "reader": ("the page, metrics, and commands that look", "TIDELINE_READER_URL"),
}


def apply() -> Report:
    """Bring the ledger up to date, and show the migrations that were applied. Roles that it has get the rights on what is new."""
    with ledger(of_any_release=True) as session:
        if owner := roles.owner_of(session):
            roles.become_owner(session, owner)
        names = roles.recorded(session)
        applied = migrate(session)
        if names and applied:
            roles.grant(session, names)
    return Report(document={"applied": applied}, parts=[_said(applied)])


def apply_with_roles(prefix: str) -> Report:
    """Create the roles, bring the ledger up to date as its owner, and grant each role what it needs."""
    with ledger(of_any_release=True) as session:
        wanted = roles.setup(session, prefix)
        roles.prepare(session, wanted)
        applied = migrate(session)
        roles.grant(session, wanted.names)
    grid = Grid(
        columns=("role", "who uses it", "variable"),
        rows=[(name, *_USED_BY[duty]) for duty, name in wanted.names.items()],
    )
    step = "a role without a password cannot log in: set one with \\password in psql"
    document = {"applied": applied, "roles": dict(wanted.names)}
    return Report(document=document, parts=[_said(applied), grid, step])


def show_roles(prefix: str) -> Report:
    """Show the statements of `apply_with_roles` about roles, and change nothing."""
    with ledger(of_any_release=True) as session:
        wanted = roles.setup(session, prefix)
        before = roles.text(session, wanted.missing)
        after = roles.text(session, roles.granting(wanted.names))
    owner = wanted.names["owner"]
    parts = [
        "-- as a user who may create roles, and who owns the database",
        before or "-- nothing is missing",
        f"-- as {owner}, after: tideline migrate",
        after,
    ]
    return Report(document={"before": before.splitlines(), "after": after.splitlines()}, parts=parts)


def _said(applied: list[str]) -> str:
    return f"applied {', '.join(applied)}" if applied else "the ledger is up to date"


def check() -> Report:
    """Show the migrations that the ledger lacks, and change nothing."""
    known = versions.migrations()
    with ledger(of_any_release=True) as session, moment(session):
        has_ledger = invariants.server(session)["has_ledger"]
        missing = [known[number][0] for number in (versions.missing(session, known) if has_ledger else known)]
    said = f"missing: {', '.join(missing)}; run: tideline migrate" if missing else "the ledger is up to date"
    return Report(document={"missing": missing}, parts=[said], exit_code=_MISSING if missing else 0)


def jars(folder: Path, *, for_msk: bool) -> Report:
    """Download the jars of Spark into `folder`, and show them with the two settings of Spark's properties file."""
    folder = folder.expanduser().absolute()
    fetch({"msk" if for_msk else "spark": folder})
    names = sorted(path.name for path in folder.iterdir())
    settings = {f"spark.{part}.extraClassPath": f"{folder}/*" for part in ("driver", "executor")}
    return Report(
        document={"folder": str(folder), "jars": names, "settings": settings},
        parts=[
            f"{len(names)} jars in {folder}. Spark's properties file must name them:",
            "\n".join(f"  {name} {value}" for name, value in settings.items()),
        ],
    )
