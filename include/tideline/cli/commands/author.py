"""The commands for authors of pipelines, before anything is loaded: validate, test."""

from typing import Annotated

import typer

from tideline.cli.app import AsJson, Limit, PipelineName, app, examples
from tideline.cli.output import show


@app.command(
    epilog=examples("tideline validate", "tideline validate impressions --database", "tideline validate --json")
)
def validate(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="Check only this one. Default: all.")
    ] = None,
    *,
    database: Annotated[
        bool, typer.Option("--database", help="Check the tables in the ledger's database, too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check pipeline.yaml, transform.py and target.sql: all mistakes at once.

    It needs no servers: what only a server or Spark can check is listed as not checked. With --database it compares the
    tables as a load does. If a table does not exist, it runs target.sql in a transaction that it rolls back. The exit
    code is 20 if there is a mistake.
    """
    from tideline.cli.pages import validation

    raise typer.Exit(show(validation.validation(pipeline, with_database=database), as_json=as_json))


@app.command(
    "test",
    epilog=examples(
        "tideline test impressions sample.jsonl",
        "tideline test impressions sample.jsonl --fail-on-rejects --json",
        "head -100 sample.jsonl | tideline test impressions -",
    ),
)
def try_sample(
    pipeline: PipelineName,
    file: Annotated[
        typer.FileBinaryRead, typer.Argument(metavar="FILE", help="One record's value per line; - reads stdin.")
    ],
    *,
    limit: Limit = 20,
    fail_on_rejects: Annotated[
        bool, typer.Option("--fail-on-rejects", help="Exit with 30 if a record is rejected.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Decode and transform a sample, and store nothing.

    It shows the rows, the rejects with their reasons, and the counts. It runs the code of the Spark job, without Kafka.
    Only a transform with a `frame` starts Spark, and only its `dimension` needs the ledger's database.
    """
    from tideline.cli.pages import trial

    page = trial.of_file(pipeline, file.read(), limit=limit, fail_on_rejects=fail_on_rejects)
    raise typer.Exit(show(page, as_json=as_json))
