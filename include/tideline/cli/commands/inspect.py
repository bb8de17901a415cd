"""The commands that change nothing: pipelines, streams, batches, batch, coverage, rejects, state, metrics, plan --dry-run."""

from typing import Annotated

import typer

from tideline.cli import options
from tideline.cli.app import AsJson, BatchId, Limit, PipelineName, app, examples
from tideline.cli.options import FromTime, OfBatch, OfRanges, ToTime, UntilTime
from tideline.cli.output import print_error, show
from tideline.domain import requests
from tideline.domain.requests import NewRecords
from tideline.domain.states import BatchKind, BatchState


@app.command(epilog=examples("tideline pipelines", "tideline pipelines --retired", "tideline pipelines --json"))
def pipelines(
    *,
    retired: Annotated[bool, typer.Option("--retired", help="Show retired pipelines as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """List all pipelines: state, streams, lag, open batches.

    The list holds the declared pipelines and those that the ledger knows, except retired ones that no folder declares. `failed` counts batches whose
    last attempt failed: the next run tries them again.
    """
    from tideline.reports import overview

    raise typer.Exit(show(overview.pipelines(with_retired=retired), as_json=as_json))


@app.command(epilog=examples("tideline streams impressions", "tideline streams impressions --json"))
def streams(pipeline: PipelineName, *, as_json: AsJson = False) -> None:
    """Show the head and lag of each partition, and why it stopped.

    Headroom is the share of the topic's retention time that is left for the oldest record that no run has read. If the broker does not answer, the
    ledger's figures are shown, and the exit code is 10.
    """
    from tideline.reports import overview

    raise typer.Exit(show(overview.streams(pipeline), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline batches impressions",
        "tideline batches impressions --state failed",
        "tideline batches impressions --kind replay --limit 5",
    )
)
def batches(
    pipeline: PipelineName,
    *,
    state: Annotated[BatchState | None, typer.Option(help="Show only batches in this state.")] = None,
    kind: Annotated[BatchKind | None, typer.Option(help="Show only batches of this kind.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the batches of a pipeline, newest first."""
    from tideline.reports import history

    raise typer.Exit(show(history.batches(pipeline, state=state, kind=kind, limit=limit), as_json=as_json))


@app.command(epilog=examples("tideline batch 42", "tideline batch 42 --json"))
def batch(batch: BatchId, *, as_json: AsJson = False) -> None:
    """Show one batch: ranges, counts, owner, attempts, events."""
    from tideline.reports import history

    raise typer.Exit(show(history.batch(batch), as_json=as_json))


@app.command(epilog=examples("tideline coverage impressions", "tideline coverage impressions --json"))
def coverage(pipeline: PipelineName, *, as_json: AsJson = False) -> None:
    """List offsets that are not loaded, with the reason.

    They were skipped, lost, or lie before a stream's start.

    The last line states whether coverage tiles [start, head) of every stream. If it does not, the exit code is 30.
    """
    from tideline.reports import coverage

    raise typer.Exit(show(coverage.coverage(pipeline), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline rejects impressions --by-reason",
        "tideline rejects impressions --batch 42 --values",
        "tideline rejects impressions --reason 'not a JSON' --limit 100 --json",
    )
)
def rejects(
    pipeline: PipelineName,
    *,
    batch: Annotated[int | None, typer.Option(metavar="N", help="Show only rejects of this batch.")] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show only reasons that contain this text.")
    ] = None,
    by_reason: Annotated[bool, typer.Option("--by-reason", help="Count the rejects of each reason.")] = False,
    values: Annotated[bool, typer.Option("--values", help="Show keys and values; with --json also headers.")] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List rejected records, or count them by reason.

    They could not be decoded, transformed or written. Records of the newest batch are listed first.
    """
    from tideline.reports import rejects

    if by_reason:
        page = rejects.reject_reasons(pipeline, batch_id=batch, reason_like=reason, limit=limit)
    else:
        page = rejects.rejects(pipeline, batch_id=batch, reason_like=reason, limit=limit, values=values)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(
    epilog=examples(
        "tideline state visits",
        "tideline state visits --key ada",
        """tideline state visits --key '["ada", 7]' --json""",
    )
)
def state(
    pipeline: PipelineName,
    *,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Show the history of one key: its value, or the JSON list of its values."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a stateful pipeline keeps: how far each stream is folded, keys, size, watermark; or the history of a key.

    The history goes back as far as the pipeline can be rewound.
    """
    from tideline.reports import states

    page = states.state(pipeline) if key is None else states.key(pipeline, key)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(epilog=examples("tideline metrics", "tideline metrics --textfile"))
def metrics(
    *,
    textfile: Annotated[
        bool, typer.Option("--textfile", help="Use Prometheus's older format, which node_exporter reads from files.")
    ] = False,
) -> None:
    """Print the numbers of all pipelines in OpenMetrics text.

    The same as /tideline/metrics in Airflow. The exit code is 0 also if the ledger or a broker does not answer: tideline_ledger_up and
    tideline_broker_up say so, and the reason is on stderr.
    """
    from tideline.metrics.collecting import collect

    sheet, problems = collect()
    typer.echo(sheet.prometheus() if textfile else sheet.openmetrics(), nl=False)
    for problem in problems:
        print_error(problem, as_json=False)


@app.command(
    epilog=examples(
        "tideline plan impressions --dry-run",
        "tideline plan impressions --dry-run --until 2026-11-21T14:00:00Z",
        "tideline plan impressions --dry-run --from 2026-11-21T13:00Z --to 2026-11-21T14:00Z --replace",
        "tideline plan impressions --dry-run --range 'ads/3 [100, 200)'",
    )
)
def plan(
    pipeline: PipelineName,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Required: this command only shows.")] = False,
    until: UntilTime = None,
    batch: OfBatch = None,
    ranges: OfRanges = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Include offsets that are loaded, as a replay does.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a run would load, and reserve nothing.

    Without further options, a run loads the open batches first, then all new records.
    """
    from tideline.authoring import additions
    from tideline.reports import decisions

    if not dry_run:
        raise typer.BadParameter(
            "this command only shows what a run would load: add --dry-run. To load new records, trigger the pipeline's DAG"
        )
    if until or not (batch or ranges or from_time or to_time):
        if replace or batch or ranges or from_time or to_time:
            raise typer.BadParameter(
                "request either new records, or a batch, ranges or a window (with or without --replace), not both"
            )
        with options.usage_errors():
            request: requests.Request = NewRecords(until=requests.moment("--until", until) if until else None)
    else:
        with options.usage_errors():
            request = requests.request_for(
                batch=batch, ranges=ranges or (), start=from_time, end=to_time, replace=replace
            )
    raise typer.Exit(show(decisions.dry_run(pipeline, request, additions.of_next_batch), as_json=as_json))
