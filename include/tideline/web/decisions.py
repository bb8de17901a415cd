"""The decisions of a person. Each shows first what it would do, then asks for a reason, and calls the same verb as the command line.

What is confirmed is what was shown: the form of the reason carries the values of the dry run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request, status
from fastapi.responses import HTMLResponse

from tideline.domain import requests
from tideline.domain.requests import KeptRejects, NamedRange
from tideline.reports import decisions
from tideline.reports.report import Report
from tideline.web import broker_cache
from tideline.web.access import Decidable, User, name_of
from tideline.web.batch import of_pipeline
from tideline.web.rendering import page

Given = Mapping[str, str]
_DRY = "a dry run"
"""The reason of a dry run, which is not stored."""


class MistakeError(Exception):
    """A field of the form has a mistake. The message says what was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form."""

    name: str
    label: str
    hint: str = ""
    required: bool = False
    tick: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A kind of decision: its form, its dry run and its verb."""

    name: str
    title: str
    means: str
    fields: tuple[FormField, ...]
    try_out: Callable[[str, Given], Report]
    carry_out: Callable[[str, Given, str, str], Report]
    """Called with the pipeline, the fields, the reason and the name of the person."""
    starts_runs: bool = False

    def values(self, form: Given) -> dict[str, str]:
        """Return what a form says in its fields."""
        return {field.name: form[field.name] for field in self.fields if form.get(field.name)}

    def dry_run(self, pipeline: str, given: Given) -> Report:
        """Return what it would do."""
        return self._checked(lambda: self.try_out(pipeline, given), given)

    def decide(self, pipeline: str, given: Given, reason: str, actor: str) -> Report:
        """Do it."""
        return self._checked(lambda: self.carry_out(pipeline, given, reason, actor), given)

    def _checked(self, do: Callable[[], Report], given: Given) -> Report:
        for field in self.fields:
            if field.required and field.name not in given:
                raise MistakeError(f"{field.label}: expected a value, found none")
        try:
            return do()
        except HTTPException as error:
            raise MistakeError(str(error.detail)) from error
        except ValueError as error:
            raise MistakeError(str(error)) from error


def _number(given: Given, name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:  # noqa: PLR2004 - what fits a bigint
        raise MistakeError(f"{name}: expected a number, found {text!r}")
    return int(text)


def _batch(pipeline: str, given: Given) -> int:
    """Return the batch, which must be of the pipeline whose rights were checked."""
    return int(of_pipeline(pipeline, _number(given, "batch") or 0)["batch_id"])


def _replay(pipeline: str, given: Given) -> requests.Request:
    batch = _batch(pipeline, given) if "batch" in given else None
    ranges = [line for line in given.get("ranges", "").replace(";", "\n").splitlines() if line.strip()]
    start, end = given.get("from"), given.get("to")
    return requests.request_for(batch=batch, ranges=ranges, start=start, end=end, replace=True)


def _rejects(pipeline: str, given: Given) -> requests.Request:
    batch = _batch(pipeline, given) if "batch" in given else None
    return KeptRejects(batch_id=batch, reason_like=given.get("reject_reason"))


def _topic(given: Given) -> str:
    topic, partition = requests.topic_and_partition(given["topic"])
    if partition is not None:
        raise MistakeError("expected a topic, found a partition: a topic is decided about as a whole")
    return topic


def _skip(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    piece = NamedRange.parse(given["range"])
    return decisions.skip(pipeline, piece, reason=reason, actor=actor, dry_run=dry_run)


def _accept(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    topic = requests.topic_and_partition(given["topic"])
    return decisions.accept_loss(pipeline, *topic, reason=reason, actor=actor, dry_run=dry_run)


def _partitions(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    return decisions.accept_partitions(pipeline, _topic(given), reason=reason, actor=actor, dry_run=dry_run)


def _adopt(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    return decisions.adopt_topic(pipeline, _topic(given), reason=reason, actor=actor, dry_run=dry_run)


def _retry(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    return decisions.order_retry(_batch(pipeline, given), reason=reason, actor=actor, dry_run=dry_run)


def _abandon(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    batch = _batch(pipeline, given)
    return decisions.abandon(batch, reason=reason, force="force" in given, actor=actor, dry_run=dry_run)


def _rewind(pipeline: str, given: Given, reason: str, actor: str | None, *, dry_run: bool) -> Report:
    to_batch = _number(given, "to_batch") or 0
    return decisions.rewind(pipeline, to_batch, reason=reason, dry_run=dry_run, actor=actor)


def _decided(
    name: str, title: str, means: str, verb: Callable[..., Report], *fields: FormField, starts: bool = False
) -> Decision:
    """Return a decision whose verb has a dry run of its own."""
    return Decision(
        name=name,
        title=title,
        means=means,
        fields=fields,
        try_out=lambda pipeline, given: verb(pipeline, given, _DRY, None, dry_run=True),
        carry_out=lambda pipeline, given, reason, actor: verb(pipeline, given, reason, actor, dry_run=False),
        starts_runs=starts,
    )


def _load(
    name: str, title: str, means: str, request: Callable[[str, Given], requests.Request], *fields: FormField
) -> Decision:
    """Return a decision that reserves batches, which runs of the DAG write."""
    return Decision(
        name=name,
        title=title,
        means=means,
        fields=fields,
        try_out=lambda pipeline, given: decisions.dry_run(pipeline, request(pipeline, given)),
        carry_out=lambda pipeline, given, reason, actor: decisions.reserve(
            pipeline, request(pipeline, given), reason=reason, actor=actor
        ),
        starts_runs=True,
    )


_BATCH = FormField(name="batch", label="Batch", hint="its number")
_THE_BATCH = FormField(name="batch", label="Batch", hint="its number", required=True)
DECISIONS = {
    decision.name: decision
    for decision in (
        _load(
            "replay",
            "Replay",
            "Loads offsets again and replaces their rows, when the new batches are published and not before. "
            "Name a batch, or ranges, or a window of time.",
            _replay,
            _BATCH,
            FormField(
                name="ranges", label="Ranges", hint="such as ads/3 [100, 200); several are separated by a semicolon"
            ),
            FormField(name="from", label="From", hint="a moment with a zone, such as 2026-11-21T13:00Z"),
            FormField(name="to", label="To", hint="records before this moment"),
        ),
        _load(
            "redrive",
            "Re-drive rejects",
            "Tries rejected records again, from their stored bytes. Correct the transform or the table first.",
            _rejects,
            _BATCH,
            FormField(name="reject_reason", label="Reason of the rejects contains", hint="empty for all"),
        ),
        _decided(
            "retry",
            "Retry a batch",
            "Starts a run that writes an open batch, with the ranges that it has.",
            _retry,
            _THE_BATCH,
            starts=True,
        ),
        _decided(
            "abandon",
            "Abandon a batch",
            "Gives up a batch that is not published. The next run plans its offsets again.",
            _abandon,
            _THE_BATCH,
            FormField(name="force", label="Also if an attempt is writing it", tick=True),
        ),
        _decided(
            "skip",
            "Skip offsets",
            "Leaves offsets out permanently, as a hole with a reason. A backfill can fill it later.",
            _skip,
            FormField(name="range", label="Range", hint="such as ads/3 [100, 101)", required=True),
        ),
        _decided(
            "accept-loss",
            "Accept a loss",
            "Resumes stopped partitions without the records that Kafka has deleted. They become a hole.",
            _accept,
            FormField(name="topic", label="Topic", hint="or one partition, such as ads/3", required=True),
        ),
        _decided(
            "accept-partitions",
            "Accept added partitions",
            "Loads the partitions that a topic has gained, because no key has moved to them.",
            _partitions,
            FormField(name="topic", label="Topic", required=True),
        ),
        _decided(
            "adopt-topic",
            "Adopt a topic",
            "Follows a topic that was created again. Its old partitions retire and keep their history.",
            _adopt,
            FormField(name="topic", label="Topic", required=True),
        ),
        _decided(
            "rewind",
            "Rewind",
            "Takes a pipeline with a state back to the end of a batch. The next run loads what came after it again.",
            _rewind,
            FormField(name="to_batch", label="To the end of batch", hint="0 for the beginning", required=True),
        ),
    )
}
"""The decisions by name, as the command line names them."""


router = APIRouter(prefix="/pipelines/{pipeline}/decisions/{decision}")
_MOST_BYTES = 20_000


def _named(decision: str) -> Decision:
    if decision not in DECISIONS:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no decision {decision}")
    return DECISIONS[decision]


async def _form(request: Request) -> dict[str, str]:
    body = bytearray()
    async for part in request.stream():  # stops at the limit, instead of holding whatever is sent in memory
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE, "the form is too long")
    try:
        given = parse_qs(body.decode("utf-8"), strict_parsing=bool(body))
    except ValueError as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "expected a form in UTF-8") from error
    return {name: values[-1].strip() for name, values in given.items()}


Chosen = Annotated[Decision, Depends(_named)]
Form = Annotated[dict[str, str], Depends(_form)]


@router.get("")
def ask(request: Request, pipeline: Decidable, decision: Chosen) -> HTMLResponse:
    """Show the form of a decision, filled in as the address says."""
    return page(request, "decision.html", pipeline=pipeline, decision=decision, given=request.query_params)


@router.post("/dry-run")
def dry_run(request: Request, pipeline: Decidable, decision: Chosen, form: Form) -> HTMLResponse:
    """Show what a decision would do. Change nothing."""
    given = decision.values(form)
    try:
        found = decision.dry_run(pipeline, given)
    except MistakeError as mistake:
        return page(request, "mistake.html", mistake=str(mistake))
    return page(request, "dry_run.html", pipeline=pipeline, decision=decision, given=given, parts=found.parts)


@router.post("")
def carry_out(request: Request, pipeline: Decidable, user: User, decision: Chosen, form: Form) -> HTMLResponse:
    """Carry out a decision, under the name of the person."""
    reason = form.get("reason", "")
    if not reason:
        return page(request, "mistake.html", mistake="Say why: the reason is stored in the history.")
    try:
        done = decision.decide(pipeline, decision.values(form), reason, name_of(user))
    except MistakeError as mistake:
        return page(request, "mistake.html", mistake=str(mistake))
    finally:
        broker_cache.forget(pipeline)
    starts = done.document.get("batch_ids", []) if decision.starts_runs else []
    return page(request, "done.html", pipeline=pipeline, parts=done.parts, starts=starts, reason=reason)
