"""The command that brings the ledger up to date: migrate."""

from typing import Annotated

import typer

from tideline.cli.app import AsJson, app, examples
from tideline.cli.output import show


@app.command(epilog=examples("tideline migrate", "tideline migrate --check"))
def migrate(
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 30 if a migration is missing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create the ledger, or bring it up to date.

    Run it after each update, when the tasks of the older release have ended. It never goes back, and two at once are safe.
    """
    from tideline.cli.pages import migrations

    raise typer.Exit(show(migrations.check() if check else migrations.apply(), as_json=as_json))
