"""The command `doctor`, which checks everything."""

from typing import Annotated

import typer

from tideline.cli.app import AsJson, app, examples
from tideline.cli.output import show


@app.command(epilog=examples("tideline doctor", "tideline doctor impressions", "tideline doctor --json"))
def doctor(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="Check only this one. Default: all.")
    ] = None,
    *,
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows",
            help="Compare the rows of all published batches with the outputs, not only of the newest 20. Reads the outputs.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check everything: one line per check, with the next step.

    It checks connections, versions, rights, topics and their retention, streams, rows, and the laws of the ledger. The exit code is 30 if a check is
    bad. Warnings do not change it.
    """
    from tideline.reports import doctor

    raise typer.Exit(show(doctor.doctor(pipeline, all_rows=all_rows), as_json=as_json))
