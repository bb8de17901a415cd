"""The command that brings the ledger up to date: migrate."""

import re
from typing import Annotated

import typer

from tideline.cli.app import AsJson, app, examples
from tideline.cli.output import show


@app.command(epilog=examples("tideline migrate", "tideline migrate --check", "tideline migrate --roles --dry-run"))
def migrate(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 30 if a migration is missing.")
    ] = False,
    roles: Annotated[
        bool, typer.Option("--roles", help="Also create a role for each kind of process, and grant it what it needs.")
    ] = False,
    prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="What the names of the roles begin with.")
    ] = "tideline_",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --roles: print the statements about roles, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the ledger, or bring it up to date.

    Run it after each update, when the tasks of the older release have ended. It never goes back, and two at once are safe. Once roles were
    created, each later migration grants them what it adds.
    """
    from tideline.cli.pages import migrations

    if dry_run and not roles:
        raise typer.BadParameter(
            "expected --roles with it; what a migration would do shows --check", param_hint="--dry-run"
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,39}", prefix):
        raise typer.BadParameter(f"expected lower case letters, digits and _, found {prefix!r}", param_hint="--prefix")
    if check and roles:
        raise typer.BadParameter("expected it without --roles", param_hint="--check")
    if roles:
        page = migrations.show_roles(prefix) if dry_run else migrations.apply_with_roles(prefix)
    else:
        page = migrations.check() if check else migrations.apply()
    raise typer.Exit(show(page, as_json=as_json))
