"""The commands for authors of pipelines, before anything is loaded: new, validate, test, sample."""

from typing import Annotated

import typer

from tideline.cli import options
from tideline.cli.app import AsJson, Limit, PipelineName, app, examples
from tideline.cli.options import content
from tideline.cli.output import show

SecurityKeys = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="A key of source.security; env:NAME as above. May be repeated."),
]
RegistryKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="A key of source.registry, for values in the frame of a schema registry; env:NAME as above. May be repeated.",
    ),
]


@app.command(
    epilog=examples(
        "tideline new orders --topic orders --bootstrap-servers broker-1:9092,broker-2:9092",
        "tideline new orders --topic orders --bootstrap-servers env:ORDERS_KAFKA --no-values",
        "tideline new orders --topic orders --like impressions --table shop.orders",
        "tideline new orders --topic orders --bootstrap-servers broker-1:9092 --registry urls=http://registry:8081",
    )
)
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new pipeline's name.")],
    *,
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic to load.")],
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT,...", help="The brokers; env:NAME for the value of a variable."),
    ] = None,
    security: SecurityKeys = None,
    registry: RegistryKeys = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="PIPELINE", help="Take brokers, security and registry from this pipeline instead."),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="SCHEMA.TABLE", help="The output table. Default: landing.NAME.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="Look at the newest N records.")] = 1000,
    empty: Annotated[bool, typer.Option("--empty", help="Look at no record: write a folder to fill in.")] = False,
    no_values: Annotated[
        bool, typer.Option("--no-values", help="Write invented values into the test's sample, not real ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the folder of a new pipeline, from the records of a topic.

    It writes pipeline.yaml, target.sql, transform.py, and a test with a sample of real records, which may hold personal
    data. It lists what the records do not decide: what it saw, what it chose, and how to change that. It joins no
    consumer group.
    """
    from tideline.authoring.new_pipeline import Options
    from tideline.reports import new_pipeline

    if (bootstrap_servers is None) == (like is None):
        raise typer.BadParameter("expected either --bootstrap-servers or --like")
    if like and (security or registry):
        raise typer.BadParameter(
            "--like takes security and registry of that pipeline, so --security and --registry cannot be added"
        )
    chosen = Options(
        name=name,
        topic=topic,
        servers=bootstrap_servers,
        security=options.key_values(security or []),
        registry=options.key_values(registry or []),
        like=like,
        table=table or f"landing.{name}",
        count=0 if empty else sample,
        values=not no_values,
    )
    raise typer.Exit(show(new_pipeline.new(chosen), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline validate",
        "tideline validate impressions --database",
        "tideline validate orders --registry",
        "tideline validate --json",
    )
)
def validate(
    pipeline: Annotated[
        str | None, typer.Argument(metavar="[PIPELINE]", help="Check only this one. Default: all.")
    ] = None,
    *,
    database: Annotated[
        bool, typer.Option("--database", help="Check the tables in the ledger's database, too.")
    ] = False,
    registry: Annotated[
        bool,
        typer.Option(
            "--registry",
            help="Compare columns with the newest schemas of the registry; with --database also with those that batches have used.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check pipeline.yaml, transform.py and target.sql: all mistakes at once.

    It needs no servers: what only a server or Spark can check is listed as not checked. With --database it compares the
    tables as a load does. If a table does not exist, it runs target.sql in a transaction that it rolls back. The exit
    code is 20 if there is a mistake.
    """
    from tideline.reports import validation

    raise typer.Exit(
        show(validation.validation(pipeline, with_database=database, with_registry=registry), as_json=as_json)
    )


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
        str,
        typer.Argument(
            metavar="FILE",
            help="One record's value per line, behind its key and a tab with source.key, in base64 if it is Avro or Protobuf; - reads stdin.",
        ),
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
    Only a transform with a `frame` starts Spark. Only its `dimension` and a processor's `tables` need the ledger's database.
    """
    from tideline.reports import trial

    page = trial.of_file(pipeline, content(file), limit=limit, fail_on_rejects=fail_on_rejects)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(
    epilog=examples(
        "tideline sample impressions",
        "tideline sample impressions --count 500 --json",
        "tideline sample impressions --values > sample.jsonl",
        "tideline sample orders --schemas > include/pipelines/orders/schemas.json",
    )
)
def sample(
    pipeline: PipelineName,
    *,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Look at the newest N records.")] = 20,
    values: Annotated[
        bool,
        typer.Option("--values", help="Print only values (and keys, with source.key), as `tideline test` reads them."),
    ] = False,
    schemas: Annotated[
        bool,
        typer.Option(
            "--schemas", help="Print only the schemas that they name in source.registry, for the file schemas.json."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the newest records as they would be loaded, and load nothing.

    It shows the rows, the rejects with their reasons, and the counts. Only committed records are read. No consumer
    group is joined, and the ledger is not needed.
    """
    from tideline.reports import trial

    if values + schemas + as_json > 1:
        raise typer.BadParameter("expected one of --values, --schemas and --json")
    if schemas:
        print(trial.schemas_of_newest(pipeline, count))
        raise typer.Exit
    if values:
        trial.print_values(pipeline, count)
        raise typer.Exit
    raise typer.Exit(show(trial.of_newest(pipeline, count), as_json=as_json))
