"""The command that downloads what Spark needs: jars."""

from pathlib import Path
from typing import Annotated

import typer

from tideline.cli.app import AsJson, app, examples
from tideline.cli.output import show


@app.command(epilog=examples("tideline jars /opt/tideline/jars"))
def jars(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder, or one that holds only jars.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Download the jars that Spark drivers and executors need.

    They are Spark's reader for Kafka and what it depends on, in the versions that are tested together. The folder is replaced. Name it in
    spark.driver.extraClassPath and spark.executor.extraClassPath. Needs Java and the network.
    """
    from tideline.cli.pages import deployment

    raise typer.Exit(show(deployment.jars(folder), as_json=as_json))
