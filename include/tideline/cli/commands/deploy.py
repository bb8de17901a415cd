"""The commands that prepare a deployment: migrate and jars."""

import re
from pathlib import Path
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
    from tideline.reports import deployment

    if dry_run and not roles:
        raise typer.BadParameter(
            "expected --roles with it; what a migration would do shows --check", param_hint="--dry-run"
        )
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,39}", prefix):
        raise typer.BadParameter(f"expected lower case letters, digits and _, found {prefix!r}", param_hint="--prefix")
    if check and roles:
        raise typer.BadParameter("expected it without --roles", param_hint="--check")
    if roles:
        page = deployment.show_roles(prefix) if dry_run else deployment.apply_with_roles(prefix)
    else:
        page = deployment.check() if check else deployment.apply()
    raise typer.Exit(show(page, as_json=as_json))


@app.command(epilog=examples("tideline jars /opt/tideline/jars"))
def jars(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, or one that holds only jars.")],
    *,
    msk: Annotated[
        bool, typer.Option("--msk", help="Also what logs in at Amazon MSK (sasl_mechanism AWS_MSK_IAM), 10 MB.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Download the jars that Spark drivers and executors need.

    They are Spark's reader for Kafka and what it depends on, in the versions that are tested together. The folder is replaced. Name it in
    spark.driver.extraClassPath and spark.executor.extraClassPath. Needs Java and the network.
    """
    from tideline.reports import deployment

    raise typer.Exit(show(deployment.jars(folder, for_msk=msk), as_json=as_json))
