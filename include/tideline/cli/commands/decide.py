"""The commands with which an operator decides about stopped streams: accept-loss, accept-partitions and adopt-topic."""

from typing import Annotated

import typer

from tideline.cli import options
from tideline.cli.app import AsJson, PipelineName, app, examples
from tideline.cli.commands.operate import DryRun
from tideline.cli.options import Reason
from tideline.cli.output import show


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
    from tideline.cli.pages import actions

    name, partition = options.topic_and_partition(topic)
    page = actions.accept_loss(pipeline, name, partition, reason=reason, dry_run=dry_run)
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
    from tideline.cli.pages import actions

    page = actions.accept_partitions(pipeline, topic, reason=reason, dry_run=dry_run)
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
    from tideline.cli.pages import actions

    page = actions.adopt_topic(pipeline, topic, reason=reason, dry_run=dry_run)
    raise typer.Exit(show(page, as_json=as_json))
