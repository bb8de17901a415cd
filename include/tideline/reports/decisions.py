"""Carries out the commands that operate. Each calls one verb of `tideline.flow`, and reports the result and the next step."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tideline import flow, settings
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.domain.requests import KeptRejects, NamedRange, Request
from tideline.errors import TidelineError
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.queries import Row
from tideline.ledger.reservations import Run
from tideline.ledger.sessions import ledger
from tideline.reports.dag_runs import Started, airflow
from tideline.reports.report import Grid, Report

_DAG_ID = "tideline"
"""Stored in place of a DAG id for batches that an operator has reserved at the command line."""


def dry_run(name: str, request: Request, more: Callable[[Ledger, Pipeline], Sequence[str]] | None = None) -> Report:
    """Show what a run would load. Reserve nothing.

    Args:
        name: The pipeline.
        request: What is requested.
        more: Returns what else is to say of a run. The page does without what takes the pipeline's transform.py.
    """
    pipeline = pipelines.load_named(name)
    with ledger() as session:
        drafts, notes = flow.dry_run(session, Broker(pipeline.source), pipeline, request)
        notes = [*notes, *(more(session, pipeline) if more else ())]
    grid = Grid(
        columns=(">batch", "kind", ">offsets", "ranges"),
        rows=[
            (
                str(number),
                draft.kind,
                sum(len(piece.offsets) for piece in draft.ranges),
                ", ".join(map(str, draft.ranges)),
            )
            for number, draft in enumerate(drafts, start=1)
        ],
        empty=f"{name}: nothing to load",
    )
    document = {
        "pipeline": name,
        "batches": [
            {"kind": str(draft.kind), "ranges": [_range_document(piece) for piece in draft.ranges]} for draft in drafts
        ],
        "notes": notes,
    }
    return Report(document=document, parts=[grid, *notes, "Nothing was reserved."])


def _range_document(piece: NamedRange) -> Row:
    return {
        "topic": piece.topic,
        "partition": piece.partition,
        "start_offset": piece.offsets.start,
        "end_offset": piece.offsets.end,
    }


def reserve(name: str, request: Request, *, reason: str, actor: str | None = None) -> Report:
    """Reserve batches for a replay or a re-drive. Start no run."""
    pipeline = pipelines.load_named(name)
    run = Run(dag_id=_DAG_ID, run_id=f"{actor or settings.actor()} {datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
    with ledger(actor=actor) as session:
        planned = flow.plan(session, Broker(pipeline.source), pipeline, run, request, reason=reason)
        lines = flow.describe(session, planned.batch_ids)
    if not planned.batch_ids:
        what = "no reject fits" if isinstance(request, KeptRejects) else "nothing to load"
        lines = [f"{name}: {what}; nothing was reserved"]
    document = {"pipeline": name, "batch_ids": planned.batch_ids, "notes": planned.notes}
    return Report(document=document, parts=["\n".join([*lines, *planned.notes])])


def load_again(name: str, request: Request, *, reason: str, start: bool) -> Report:
    """Reserve batches for a replay or a re-drive, and start a DAG run for each."""
    return _start_runs(reserve(name, request, reason=reason), reason=reason, start=start)


def order_retry(batch_id: int, *, reason: str, actor: str | None = None, dry_run: bool = False) -> Report:
    """Record that an open batch is to be written, with its existing ranges. Start no run."""
    with ledger(actor=actor) as session:
        pipeline = flow.retry(session, batch_id, reason=reason, dry_run=dry_run)
        lines = flow.describe(session, [batch_id])
    document = {"pipeline": pipeline, "batch_ids": [batch_id], "notes": []}
    would = [f"a run of DAG {pipeline} would be started, which writes it"] if dry_run else []
    return Report(document=document, parts=["\n".join([*lines, *would])])


def retry(batch_id: int, *, reason: str, start: bool) -> Report:
    """Start a DAG run that writes an open batch, with its existing ranges."""
    return _start_runs(order_retry(batch_id, reason=reason), reason=reason, start=start)


def _start_runs(reserved: Report, *, reason: str, start: bool) -> Report:
    """Start a DAG run for each reserved batch, and build the report. If Airflow fails, it still shows the reserved batches."""
    runs: list[Row] = []
    said = [part for part in reserved.parts if isinstance(part, str)]
    pipeline = reserved.document["pipeline"]
    problem = None
    for batch_id in reserved.document["batch_ids"]:
        started = None
        try:
            started = _start(pipeline, batch_id, reason) if start else None
        except TidelineError as error:
            problem = error
            start = False  # the other runs would fail as well
        runs.append(
            {
                "batch_id": batch_id,
                "url": started.url if started else None,
                "dag_is_paused": started.is_paused if started else None,
            }
        )
        said.append(_writer_line(pipeline, batch_id, started))
    return Report(document={**reserved.document, "runs": runs}, parts=["\n".join(said)], problem=problem)


def _start(pipeline: str, batch_id: int, reason: str) -> Started | None:
    with airflow() as session:
        return session.start(pipeline, batch_id, reason) if session else None


def _writer_line(pipeline: str, batch_id: int, started: Started | None) -> str:
    if started is None:
        return (
            f"batch {batch_id} is written by a run of DAG {pipeline} that is triggered with `load`: a batch, "
            f"`batch_id`: {batch_id}"
        )
    waits = f"; it waits, because DAG {pipeline} is paused" if started.is_paused else ""
    return f"batch {batch_id}: {started.url}{waits}"


def rewind(name: str, to_batch: int, *, reason: str, dry_run: bool, actor: str | None = None) -> Report:
    """Go back to the end of a batch."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        done = flow.rewind(session, Broker(pipeline.source), pipeline, to_batch, reason=reason, dry_run=dry_run)
    lines = [f"{name}: {line}" for line in done.describe(dry_run=dry_run)]
    if not dry_run:
        lines.append(f"{name}: the next run of DAG {name} loads them")
    document = {
        "pipeline": name,
        "to_batch": to_batch,
        "dry_run": dry_run,
        "undone_batch_ids": list(done.undone),
        "abandoned_batch_ids": list(done.abandoned),
        "planned_batch_ids": [] if dry_run else list(done.planned),
        "deleted_rows": done.n_rows,
    }
    return Report(document=document, parts=["\n".join(lines)])


def skip(name: str, piece: NamedRange, *, reason: str, actor: str | None = None, dry_run: bool = False) -> Report:
    """Leave a range out permanently."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        abandoned = flow.skip(session, Broker(pipeline.source), pipeline, piece, reason=reason, dry_run=dry_run)
    would = "would be " if dry_run else ""
    lines = [f"{piece}: {would}skipped; a backfill can fill it later"]
    lines += [
        f"batch {batch_id}: {would}abandoned for it; the next run plans its other offsets again"
        for batch_id in abandoned
    ]
    document = {
        "pipeline": name,
        "dry_run": dry_run,
        "skipped": _range_document(piece),
        "abandoned_batch_ids": abandoned,
    }
    return Report(document=document, parts=["\n".join(lines)])


def accept_loss(
    name: str, topic: str, partition: int | None, *, reason: str, actor: str | None = None, dry_run: bool = False
) -> Report:
    """Resume stopped streams without the records that are lost."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        broker = Broker(pipeline.source)
        decided = flow.accept_loss(session, broker, pipeline, topic, partition, reason=reason, dry_run=dry_run)
    return Report(document={"pipeline": name, "dry_run": dry_run, "decided": decided}, parts=["\n".join(decided)])


def accept_partitions(name: str, topic: str, *, reason: str, actor: str | None = None, dry_run: bool = False) -> Report:
    """Load the partitions that a topic has gained."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        broker = Broker(pipeline.source)
        decided = flow.accept_partitions(session, broker, pipeline, topic, reason=reason, dry_run=dry_run)
    return Report(document={"pipeline": name, "dry_run": dry_run, "decided": decided}, parts=["\n".join(decided)])


def adopt_topic(name: str, topic: str, *, reason: str, actor: str | None = None, dry_run: bool = False) -> Report:
    """Follow a topic that was created again."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        decided = flow.adopt_topic(session, Broker(pipeline.source), pipeline, topic, reason=reason, dry_run=dry_run)
    return Report(document={"pipeline": name, "dry_run": dry_run, "decided": decided}, parts=["\n".join(decided)])


def abandon(batch_id: int, *, reason: str, force: bool, actor: str | None = None, dry_run: bool = False) -> Report:
    """Abandon an open batch."""
    with ledger(actor=actor) as session:
        flow.abandon(session, batch_id, reason=reason, force=force, dry_run=dry_run)
    would = "would be " if dry_run else ""
    document = {"batch_id": batch_id, "dry_run": dry_run, "state": "abandoned"}
    return Report(
        document=document, parts=[f"batch {batch_id}: {would}abandoned; the next run plans its offsets again"]
    )


def free_output(name: str, *, reason: str) -> Report:
    """Free the outputs of a discontinued pipeline for others."""
    with ledger() as session:
        freed = flow.free_output(session, name, reason=reason)
    return Report(
        document={"pipeline": name, "outputs": freed}, parts=[f"{output}: free; its rows stay" for output in freed]
    )


def move_output(name: str, *, reason: str, actor: str | None = None, dry_run: bool = False) -> Report:
    """Let a pipeline write to the output that it declares now."""
    pipeline = pipelines.load_named(name)
    with ledger(actor=actor) as session:
        former, output = flow.move_output(session, Broker(pipeline.source), pipeline, reason=reason, dry_run=dry_run)
    would = "would be " if dry_run else ""
    if former is None:
        said = f"it has no output in the ledger yet, and its next plan claims {output}; nothing was changed"
    elif former == output:
        said = f"{output} is its output; nothing was changed"
    else:
        said = f"{would}moved from {former} to {output}; what is in the former one stays there"
    document = {"pipeline": name, "from": former, "output": output, "dry_run": dry_run}
    return Report(document=document, parts=[f"{name}: {said}"])


def recreate_table(name: str, *, reason: str) -> Report:
    """Begin a Delta table anew that was removed on purpose."""
    pipeline = pipelines.load_named(name)
    with ledger() as session:
        created = flow.recreate_table(session, pipeline, reason=reason)
    output = pipeline.sink.output
    said = (
        "created, empty; replay the batches whose rows it shall have again"
        if created
        else "is there; nothing was changed"
    )
    return Report(document={"pipeline": name, "output": output, "created": created}, parts=[f"{output}: {said}"])


def retire(name: str, *, back: bool, reason: str, dry_run: bool = False) -> Report:
    """Take a discontinued pipeline out of sight, or back."""
    if not back:
        pipelines.check_undeclared(name)
    with ledger() as session:
        changed = flow.retire(session, name, back=back, reason=reason, dry_run=dry_run)
    if changed:
        would = "would be" if dry_run else "is"
        said = f"{would} " + ("listed again" if back else "retired; its history stays: tideline pipelines --retired")
    else:
        said = f"is {'not retired' if back else 'retired already'}; nothing was changed"
    document = {"pipeline": name, "retired": not back, "changed": changed, "dry_run": dry_run}
    return Report(document=document, parts=[f"{name}: {said}"])
