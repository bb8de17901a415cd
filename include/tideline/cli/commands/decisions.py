"""The commands with which an operator decides, from replay to adopt-topic.

Each requires a reason, which is stored in the history.
"""

from typing import Annotated

import typer

from tideline.cli import options
from tideline.cli.app import AsJson, BatchId, PipelineName, app, examples
from tideline.cli.options import FromTime, OfBatch, OfRanges, Reason, ToTime
from tideline.cli.output import show
from tideline.domain import requests
from tideline.domain.requests import KeptRejects, NamedRange

NoStart = Annotated[bool, typer.Option("--no-start", help="Reserve only; start no DAG run.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]


@app.command(
    epilog=examples(
        "tideline replay impressions --batch 42 --reason 'prices were in cents'",
        "tideline replay impressions --range 'ads/3 [100, 200)' --range 'ads/4 [90, 180)' --reason '...'",
        "tideline replay impressions --from 2026-11-21T13:00Z --to 2026-11-21T14:00Z --reason '...'",
    )
)
def replay(
    pipeline: PipelineName,
    *,
    reason: Reason,
    batch: OfBatch = None,
    ranges: OfRanges = None,
    from_time: FromTime = None,
    to_time: ToTime = None,
    no_start: NoStart = False,
    as_json: AsJson = False,
) -> None:
    """Load offsets again and replace their rows.

    Offsets that are not loaded yet are loaded as well. The output is replaced when the new batches are published, not before. If
    TIDELINE_AIRFLOW_URL is set, a DAG run is started for each batch, and its address is printed.
    """
    from tideline.reports import decisions

    with options.usage_errors():
        request = requests.request_for(batch=batch, ranges=ranges or (), start=from_time, end=to_time, replace=True)
    raise typer.Exit(show(decisions.load_again(pipeline, request, reason=reason, start=not no_start), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline rewind sessions --to-batch 42 --reason 'a session ended too late' --dry-run",
        "tideline rewind sessions --to-batch 0 --reason 'everything anew'",
    )
)
def rewind(
    pipeline: PipelineName,
    *,
    to_batch: Annotated[
        int, typer.Option(metavar="N", min=0, help="The last batch that stays as it is; 0 for the beginning.")
    ],
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take a pipeline with a state back to the end of a batch, and load what came after it again.

    State, output, rejects and coverage go back in one transaction. The next run loads the same ranges again, in order.
    """
    from tideline.reports import decisions

    page = decisions.rewind(pipeline, to_batch, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(
    epilog=examples(
        "tideline retry 42 --reason 'the disk has room again'", "tideline retry 42 --no-start --reason '...'"
    )
)
def retry(batch: BatchId, *, reason: Reason, no_start: NoStart = False, as_json: AsJson = False) -> None:
    """Write an open batch now, with its existing ranges.

    A batch is open if it is planned, failed, or writing. If an attempt is writing it, the new run waits until that attempt ends or its heartbeats
    stop.
    """
    from tideline.reports import decisions

    raise typer.Exit(show(decisions.retry(batch, reason=reason, start=not no_start), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline redrive impressions --reject-reason 'not a decimal' --reason 'the column is wider now'",
        "tideline redrive impressions --batch 42 --reason '...'",
    )
)
def redrive(
    pipeline: PipelineName,
    *,
    reason: Reason,
    batch: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only records that this batch rejected.")
    ] = None,
    reject_reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only reasons that contain this text.")
    ] = None,
    no_start: NoStart = False,
    as_json: AsJson = False,
) -> None:
    """Try rejected records again, from their stored bytes.

    Correct transform.py, the columns or the table first. Kafka does not need to hold the records any more.
    """
    from tideline.reports import decisions

    request = KeptRejects(batch_id=batch, reason_like=reject_reason)
    raise typer.Exit(show(decisions.load_again(pipeline, request, reason=reason, start=not no_start), as_json=as_json))


@app.command(epilog=examples("tideline skip impressions 'ads/3 [100, 101)' --reason 'crashes the transform, see #77'"))
def skip(
    pipeline: PipelineName,
    offsets: Annotated[str, typer.Argument(metavar="RANGE", help="A range like 'ads/3 [100, 101)'.")],
    *,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Leave offsets out permanently, as a hole with a reason.

    The offsets must not be loaded. Open batches that hold some of them are abandoned, and the next run plans their other offsets again. A backfill
    can fill the hole later.
    """
    from tideline.reports import decisions

    with options.usage_errors():
        piece = NamedRange.parse(offsets)
    page = decisions.skip(pipeline, piece, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(
    epilog=examples(
        "tideline abandon 42 --reason 'its declaration was wrong'",
        "tideline abandon 42 --force --reason 'its driver hangs, see #93'",
    )
)
def abandon(
    batch: BatchId,
    *,
    reason: Reason,
    force: Annotated[
        bool,
        typer.Option("--force", help="Abandon also a batch that is being written: its attempt can then never publish."),
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Abandon an open batch; its offsets are free again.

    The next run plans them again, in new batches. A published batch cannot be abandoned. A batch that is being written needs --force.
    """
    from tideline.reports import decisions

    page = decisions.abandon(batch, reason=reason, force=force, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(epilog=examples("tideline free-output impressions_old --reason 'replaced by impressions'"))
def free_output(pipeline: PipelineName, *, reason: Reason, as_json: AsJson = False) -> None:
    """Free the table or topic of a discontinued pipeline for others.

    What is in it stays. The pipeline must have no open batches. If it is still declared, its next plan claims its outputs again.
    """
    from tideline.reports import decisions

    raise typer.Exit(show(decisions.free_output(pipeline, reason=reason), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline retire impressions_old --reason 'replaced by impressions'",
        "tideline retire impressions_old --back --reason 'it is needed again'",
    )
)
def retire(
    pipeline: PipelineName,
    *,
    back: Annotated[bool, typer.Option("--back", help="Show a retired pipeline again.")] = False,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take a discontinued pipeline out of sight, or back.

    No folder may declare it, and it must have no open batches. Lists, the page and metrics leave it out. Nothing is deleted: its batches and its
    history are shown to those who name it. If it is declared again, it is shown, and its next plan takes this back.
    """
    from tideline.reports import decisions

    page = decisions.retire(pipeline, back=back, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(epilog=examples("tideline move-output impressions --reason 'the table is partitioned now, see #97'"))
def move_output(pipeline: PipelineName, *, reason: Reason, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Let a pipeline write to another output, which its declaration names.

    Without this command a pipeline that has loaded something is refused when its declaration names another output: a second deployment with this
    ledger may declare the former one. What is in the former output stays there.
    """
    from tideline.reports import decisions

    raise typer.Exit(show(decisions.move_output(pipeline, reason=reason, dry_run=dry_run), as_json=as_json))


@app.command(epilog=examples("tideline recreate-table impressions_lake --reason 'removed to begin anew, see #94'"))
def recreate_table(pipeline: PipelineName, *, reason: Reason, as_json: AsJson = False) -> None:
    """Begin a Delta table anew that was removed on purpose.

    Without this command a table that was written and is not there is refused, because its storage may not be mounted. Published batches stay as they
    are; replay those whose rows the table shall have again.
    """
    from tideline.reports import decisions

    raise typer.Exit(show(decisions.recreate_table(pipeline, reason=reason), as_json=as_json))


@app.command(
    epilog=examples(
        "tideline accept-loss impressions ads/3 --reason 'down for nine days, see #81'",
        "tideline accept-loss impressions ads --reason '...'",
    )
)
def accept_loss(
    pipeline: PipelineName,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC[/PARTITION]", help="One partition, or all partitions of the topic.")
    ],
    *,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Resume stopped streams without the records that are lost.

    Offsets that retention has deleted become a hole `lost`. The stream of a truncated log resumes when the log has grown past the head. If nothing
    is missing any more, the stream resumes without a hole.
    """
    from tideline.reports import decisions

    with options.usage_errors():
        name, partition = requests.topic_and_partition(topic)
    page = decisions.accept_loss(pipeline, name, partition, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(
    epilog=examples("tideline accept-partitions impressions ads --reason 'the producer chooses partitions by country'")
)
def accept_partitions(
    pipeline: PipelineName,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    *,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Load the partitions that a topic has gained, because no key has moved to another partition.

    A pipeline that compares the records of a key by their offsets waits for this decision.
    """
    from tideline.reports import decisions

    page = decisions.accept_partitions(pipeline, topic, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))


@app.command(epilog=examples("tideline adopt-topic impressions ads --reason 'recreated with 36 partitions, see #90'"))
def adopt_topic(
    pipeline: PipelineName,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    *,
    reason: Reason,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Follow a topic that was created again.

    Its old streams retire and keep their history. New streams begin at the first offset of the new topic incarnation.
    """
    from tideline.reports import decisions

    page = decisions.adopt_topic(pipeline, topic, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))
